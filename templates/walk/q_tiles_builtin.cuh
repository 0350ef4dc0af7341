//$ needs block_m block_n
//$ include "walk/keys_seen.cuh"

// Which Q tiles, and which of their rows, see keys of the K/V tile in shared memory, for built-in masks.

// True if some query of the Q tile sees some key of the K/V tile.
__device__ __forceinline__ bool sees_tile(const attention_params &p, const Work &, int query0, int key0) {
    return key0 < keys_seen(p, min(query0 + BLOCK_M, p.len_q) - 1);
}

// Returns the bound below which the query sees the keys of the tile; it may be negative.
__device__ __forceinline__ int keys_of_row(const attention_params &p, int query, int key0) {
    return min(keys_seen(p, query) - key0, BLOCK_N);
}
