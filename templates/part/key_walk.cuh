// The tiles of keys that queries go over, from the last to the first; at least one, so that all take the same way.
struct KeyWalk {
    int unseen; // tiles before those, which only other units of the tile of queries see
    int left;   // tiles to come
    int after;  // as unseen
    //$ if mask_tiles == bitmap
    int word;            // of the map (part/tile_map.cuh)
    unsigned bits, full; // of it: tiles to come; those of which all queries see all keys
    //$ else
    int tile;                 // the next one
    int full_first, full_end; // keys that all queries see
    //$ end
    bool whole; // all queries see all keys of the tile that next_keys has returned
};

//$ if mask_tiles == bitmap
__device__ __forceinline__ MapLine *line_of(const attention_params &p, const Tile &tile, int unit) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const int query = set_apart(tile.query); // or addresses would be kept from one use to the next
    return map_line(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit);
}
__device__ __forceinline__ KeyWalk walk_of_line(const attention_params &p, const Tile &tile, int unit) {
    const MapLine *line = line_of(p, tile, unit);
    return {line->unseen, line->left, line->after, line->word, line->bits, line->full, false};
}

// The next tile of keys; the unit is UNITS for all of them.
__device__ __forceinline__ int next_keys(const attention_params &p, const Tile &tile, int unit, KeyWalk &walk) {
    while (walk.bits == 0) {
        walk.word--;
        walk.bits = line_of(p, tile, UNITS)->tiles()[walk.word];
        walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    }
    int bit = 31 - __clz(static_cast<int>(walk.bits));
    walk.bits ^= 1u << bit;
    walk.left--;
    walk.whole = walk.full >> bit & 1;
    return walk.word * 32 + bit;
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_line(p, tile, UNITS);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    //$ if in_turns
    KeyWalk walk = walk_of_tile(p, tile); // turns are taken alike
    walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    return walk;
    //$ else
    return walk_of_line(p, tile, unit);
    //$ end
}
//$ else
// The next tile of keys.
__device__ __forceinline__ int next_keys(const attention_params &, const Tile &, int, KeyWalk &walk) {
    walk.left--;
    walk.whole = walk.tile * BLOCK_N >= walk.full_first && (walk.tile + 1) * BLOCK_N <= walk.full_end;
    return walk.tile--;
}

// For so many queries from `query` on, those past the end aside. `otherwise`: the tile of keys, if they see none.
__device__ __forceinline__ KeyWalk walk_of_queries(const attention_params &p, const Tile &tile, int query, int count,
                                                   int otherwise) {
    const int q_first = position_of(p, min(query, p.len_q - 1)), q_last = position_of(p, min(query + count, p.len_q) - 1);
    const Keys keys = keys_of(p, {tile.batch, tile.head, tile.kv_head}, q_first, q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    const bool none = keys.end <= keys.first;
    return {0, none ? 1 : last - first + 1, 0, none ? otherwise : last, keys.full_first, keys.full_end, false};
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_queries(p, tile, tile.query, TILE_ROWS, 0);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    const KeyWalk all = walk_of_tile(p, tile);
    //$ if in_turns
    return all; // turns are taken alike
    //$ else
    KeyWalk walk = walk_of_queries(p, tile, tile.query + unit * 64, 64, all.tile);
    walk.unseen = all.tile - walk.tile;
    walk.after = all.left - walk.unseen - walk.left;
    return walk;
    //$ end
}
//$ end
