//$ needs block_m
//$ include "walk/seen_by_query.cuh"

// Which keys the queries of a tile see, for built-in masks.

__device__ __forceinline__ bool sees_key(const attention_params &p, const Tile &, int query, int key) {
    return key < keys_seen(p, query);
}

// The keys that some query of the tile sees: the last one sees the most.
__device__ __forceinline__ Keys keys_of_tile(const attention_params &p, const Tile &tile) {
    return keys_of(p, min(tile.query0 + BLOCK_M, p.len_q) - 1);
}

// True if some query sees one of the keys from key0 on.
__device__ __forceinline__ bool sees_some_key(const attention_params &p, const Tile &tile, int key0, int) {
    return key0 < keys_of_tile(p, tile).end;
}
