//$ needs block_n
//$ include "expression/formula.cuh"

// The K/V tiles of a Q tile in ascending order, without those in which no query of the Q tile sees a key.
struct KeyRange {
    int first, end; // no query sees a key outside; `first` starts a tile in which some query sees a key
    Keys of_mask;
};

__device__ __forceinline__ KeyRange keys_of_tile(const attention_params &p, const QTile &q_tile) {
    const Keys range = keys_of(p, q_tile.where, q_tile.q_first, q_tile.q_last);
    return {next_needed<BLOCK_N>(p, q_tile.where, q_tile.q_first, q_tile.q_last, range.first, range.end), range.end, range};
}

// Returns the first key of the next tile.
__device__ __forceinline__ int next_tile(const attention_params &p, const QTile &q_tile, const KeyRange &keys, int key0) {
    return next_needed<BLOCK_N>(p, q_tile.where, q_tile.q_first, q_tile.q_last, key0 + BLOCK_N, keys.end);
}

// Returns the number of keys from the next tile on.
__device__ __forceinline__ int left_from_next(const attention_params & p, int, int next) { return p.len_kv - next; }

// True if some query does not see some key of this tile.
__device__ __forceinline__ bool is_masked(const attention_params &p, const QTile &q_tile, const KeyRange &keys, int key0) {
    return !is_full<BLOCK_N>(p, q_tile.where, q_tile.q_first, q_tile.q_last, keys.of_mask, key0);
}
