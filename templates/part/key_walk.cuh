// The tiles of keys that queries go over, from the last to the first; at least one, so that all take the same way.
struct KeyWalk {
    int left; // tiles to come
    //$ if tile_map
    const unsigned *needed, *full; // part/tile_map.cuh
    int word;
    unsigned bits; // of the word: tiles to come

    // The next tile. `whole`: all queries see all its keys.
    __device__ __forceinline__ int next(bool &whole) {
        while (bits == 0)
            bits = needed[--word];
        int bit = 31 - __clz(static_cast<int>(bits));
        bits ^= 1u << bit;
        left--;
        whole = full[word] >> bit & 1;
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
__device__ __forceinline__ KeyWalk key_walk(const attention_params &p, const Tile &tile) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const int words = map_words(p);
    const unsigned *map = map_row(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + tile.query / TILE_ROWS);
    if (map[0] == 0)
        return {1, map + 1, map + 1 + words, 0, 1}; // nothing is seen of the first tile
    return {static_cast<int>(map[0]), map + 1, map + 1 + words, words, 0};
}
//$ else
// For so many queries of the tile from `query` on, those past the end aside. `otherwise`: the tile of keys, if they see none.
__device__ __forceinline__ KeyWalk key_walk(const attention_params &p, const Tile &tile, int query, int count, int otherwise) {
    const int q_first = position_of(p, min(query, p.len_q - 1)), q_last = position_of(p, min(query + count, p.len_q) - 1);
    const Keys keys = keys_of(p, {tile.batch, tile.head, tile.kv_head}, q_first, q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    const bool none = keys.end <= keys.first;
    return {none ? 1 : last - first + 1, none ? otherwise : last, (keys.full_first + BLOCK_N - 1) / BLOCK_N,
            keys.full_end / BLOCK_N};
}
//$ end
