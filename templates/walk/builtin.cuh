//$ needs mask block_n units_apart
//$ include "walk/keys_seen.cuh"

// The K/V tiles of a Q tile, from the last to the first: masked tiles come first, and may be one only. At least one tile, so
// that every Q tile runs the same code.
struct KeyWalk {
    //$ if units_apart
    int unseen;   // tiles before the first of this unit, which only other units need
    //$ end
    int left;     // tiles left
    int unmasked; // all queries see all of the tiles below
    bool whole;   // all queries see all keys of the tile that next_keys has returned
};

// One past the last key that any query below `query_end` sees, which may be past the end of Q.
__device__ __forceinline__ int keys_end(const attention_params &p, int query_end) {
    return min(p.len_kv, keys_seen(p, query_end - 1));
}

__device__ __forceinline__ int key_tiles(const attention_params &p, int query, int count) {
    return max(1, (keys_end(p, min(query + count, p.len_q)) + BLOCK_N - 1) / BLOCK_N);
}

// The walk of a whole Q tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    KeyWalk walk = {};
    walk.left = key_tiles(p, tile.query, queries_of_tile(p));
    return walk;
}

// The walk of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    const int first = tile.query + unit * queries_of_unit(p);
    KeyWalk walk = walk_of_tile(p, tile);
    //$ if units_apart
    if (tile.query >= 0) // else there is no tile, and nothing to skip
        walk.unseen = walk.left - (first < p.len_q ? key_tiles(p, first, queries_of_unit(p)) : 1);
    walk.left -= walk.unseen;
    //$ end
    //$ if mask == causal
    walk.unmasked = max(0, keys_end(p, first + 1) - 1) / BLOCK_N; // perhaps one masked tile more than needed: after it every row has an m
    //$ else
    walk.unmasked = keys_end(p, first + 1) / BLOCK_N;
    //$ end
    return walk;
}

// The next K/V tile.
__device__ __forceinline__ int next_keys(const attention_params &, const Tile &, int, KeyWalk &walk) {
    walk.left--;
    walk.whole = walk.left < walk.unmasked;
    return walk.left;
}
