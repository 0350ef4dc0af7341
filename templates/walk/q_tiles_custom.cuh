//$ needs block_m block_n
//$ include "expression/formula.cuh"

// Which Q tiles, and which of their rows, see keys of the K/V tile in shared memory, for masks that are expressions.

// True if some query of the Q tile sees some key of the K/V tile.
__device__ __forceinline__ bool sees_tile(const attention_params &p, const Work &work, int query0, int key0) {
    return some_seen(p, work.where, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1), key0,
                     min(key0 + BLOCK_N, p.len_kv) - 1);
}

// True if some query of any Q tile does.
__device__ __forceinline__ bool some_sees_tile(const attention_params &p, const Work &work, int key0) {
    bool sees = false;
    for (int query0 = 0; !sees && query0 < p.len_q; query0 += BLOCK_M)
        sees = sees_tile(p, work, query0, key0);
    return sees;
}

// Returns a bound: all keys of the tile that the query sees are below it.
__device__ __forceinline__ int keys_of_row(const attention_params &p, int, int key0) { return min(p.len_kv - key0, BLOCK_N); }

__device__ __forceinline__ bool sees_key(const attention_params &p, const Work &work, int query, int key) {
    return sees(p, work.where, position_of(p, query), key);
}
