//$ needs block_m
//$ include "expression/formula.cuh"

// Which keys the queries of a tile see, for masks that are expressions.

// False also past the last query and the last key.
__device__ __forceinline__ bool sees_key(const attention_params &p, const Tile &tile, int query, int key) {
    return query < p.len_q && key < p.len_kv && sees(p, tile.where, position_of(p, query), key);
}

// The keys that some query of the tile sees: none outside [first, end).
__device__ __forceinline__ Keys keys_of_tile(const attention_params &p, const Tile &tile) {
    return keys_of(p, tile.where, position_of(p, tile.query0), position_of(p, min(tile.query0 + BLOCK_M, p.len_q) - 1));
}

// True if some query sees one of `keys` keys from key0 on.
__device__ __forceinline__ bool sees_some_key(const attention_params &p, const Tile &tile, int key0, int keys) {
    return some_seen(p, tile.where, position_of(p, tile.query0), position_of(p, min(tile.query0 + BLOCK_M, p.len_q) - 1), key0,
                     min(key0 + keys, p.len_kv) - 1);
}
