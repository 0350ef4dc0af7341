// The tiles of keys that a tile of queries goes over, from the last to the first; at least one, so that all take the same
// way.
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

__device__ __forceinline__ KeyWalk key_walk(const attention_params &p, const Tile &tile) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    //$ if tile_map
    const int words = map_words(p);
    const unsigned *map = map_row(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + tile.query / TILE_ROWS);
    if (map[0] == 0)
        return {1, map + 1, map + 1 + words, 0, 1}; // nothing is seen of the first tile
    return {static_cast<int>(map[0]), map + 1, map + 1 + words, words, 0};
    //$ else
    const int q_last = position_of(p, min(tile.query + TILE_ROWS, p.len_q) - 1);
    const Keys keys = keys_of(p, where_is(p, head), position_of(p, tile.query), q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    if (keys.end <= keys.first)
        return {1, 0, 0, 0}; // nothing is seen of the first tile
    return {last - first + 1, last, (keys.full_first + BLOCK_N - 1) / BLOCK_N, keys.full_end / BLOCK_N};
    //$ end
}
