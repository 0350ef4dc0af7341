// The tiles of keys that queries go over, from the last to the first; at least one, so that all take the same way.
struct KeyWalk {
    int unseen; // tiles before those, which only other units of the tile of queries see
    int left;   // tiles to come
    int after;  // as unseen
    //$ if tile_map
    const unsigned *needed; // a bit for each tile of keys (part/tile_map.cuh); behind it, by so many words, one that says ...
    int full;               // ... whether all queries see all its keys
    int word;
    unsigned bits; // of the word: tiles to come

    // The next tile. `whole`: all queries see all its keys.
    __device__ __forceinline__ int next(bool &whole) {
        while (bits == 0)
            bits = needed[--word];
        int bit = 31 - __clz(static_cast<int>(bits));
        bits ^= 1u << bit;
        left--;
        whole = needed[word + full] >> bit & 1;
        return word * 32 + bit;
    }
    //$ else
    int tile;
    int full_first, full_end; // tiles of which all queries see all keys

    // The next tile. `whole`: all queries see all its keys.
    __device__ __forceinline__ int next(bool &whole) {
        left--;
        whole = tile >= full_first && tile < full_end;
        return tile--;
    }
    //$ end
};

//$ if tile_map
__device__ __forceinline__ KeyWalk walk_of_line(const attention_params &p, const Tile &tile, int number) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const long long row = head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + tile.query / TILE_ROWS;
    MapLine *line = map_line(p, row, number);
    return {line->unseen, line->left, line->after, map_line(p, row, UNITS)->tiles(),
            (number - UNITS) * map_line_words(p), line->word, line->bits};
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_line(p, tile, UNITS);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    KeyWalk walk = walk_of_line(p, tile, unit);
    //$ if in_turns
    int full = walk.full;
    walk = walk_of_tile(p, tile); // turns are taken alike
    walk.full = full;
    //$ end
    return walk;
}
//$ else
// For so many queries from `query` on, those past the end aside. `otherwise`: the tile of keys, if they see none.
__device__ __forceinline__ KeyWalk walk_of_queries(const attention_params &p, const Tile &tile, int query, int count,
                                                   int otherwise) {
    const int q_first = position_of(p, min(query, p.len_q - 1)), q_last = position_of(p, min(query + count, p.len_q) - 1);
    const Keys keys = keys_of(p, {tile.batch, tile.head, tile.kv_head}, q_first, q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    const bool none = keys.end <= keys.first;
    return {0, none ? 1 : last - first + 1, 0, none ? otherwise : last, (keys.full_first + BLOCK_N - 1) / BLOCK_N,
            keys.full_end / BLOCK_N};
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_queries(p, tile, tile.query, TILE_ROWS, 0);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    const KeyWalk all = walk_of_tile(p, tile);
    KeyWalk walk = walk_of_queries(p, tile, tile.query + unit * 64, 64, all.tile);
    //$ if in_turns
    walk.tile = all.tile, walk.left = all.left; // turns are taken alike
    //$ else
    walk.unseen = all.tile - walk.tile;
    walk.after = all.left - walk.unseen - walk.left;
    //$ end
    return walk;
}
//$ end
