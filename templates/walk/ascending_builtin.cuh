//$ needs block_m block_n
//$ include "walk/keys_seen.cuh"

// The K/V tiles of a Q tile in ascending order, up to the last key that one of its queries sees.
struct KeyRange {
    int first, end;  // no query sees a key outside
    int seen_by_all; // keys that every query sees
};

__device__ __forceinline__ KeyRange keys_of_tile(const attention_params &p, const QTile &q_tile) {
    return {0, keys_seen(p, min(q_tile.row0 + BLOCK_M, p.len_q) - 1), keys_seen(p, q_tile.row0)};
}

// Returns the first key of the next tile.
__device__ __forceinline__ int next_tile(const attention_params &, const QTile &, const KeyRange &, int key0) {
    return key0 + BLOCK_N;
}

// Returns the number of keys from the next tile on; `left` counts them from this tile on.
__device__ __forceinline__ int left_from_next(const attention_params &, int left, int) { return left - BLOCK_N; }

// True if some query does not see some key of this tile.
__device__ __forceinline__ bool is_masked(const attention_params &, const QTile &, const KeyRange &keys, int key0) {
    return key0 + BLOCK_N > keys.seen_by_all;
}
