//$ needs block_m block_n
//$ include "walk/keys_seen.cuh"

// Which Q tiles, and which of their rows, see keys of the K/V tile in shared memory, for built-in masks.

// Does some query of the Q tile see some key of the K/V tile?
__device__ __forceinline__ bool sees_tile(const attention_params &p, const Work &, int query0, int key0) {
    return key0 < keys_seen(p, min(query0 + BLOCK_M, p.len_q) - 1);
}

// The query sees the keys of the tile below this, which may be negative.
__device__ __forceinline__ int keys_of_row(const attention_params &p, int query, int key0) {
    return min(keys_seen(p, query) - key0, BLOCK_N);
}
