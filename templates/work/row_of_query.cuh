//$ needs block_m
//$ let one_query = true
//$ include "params/attention.h"

// Rows of Q that share a K/V head: query by query, and for each query all heads of the group, padded to whole Q
// tiles. So all rows of a Q tile belong to one query and see the same keys.

// The query and the head that a row belongs to.
struct Row {
    int query; // len_q or more: padding
    int head;
};

__device__ __forceinline__ int heads_of_group(const attention_params &p) { return p.heads / p.kv_heads; }
__device__ __forceinline__ int rows_of_query(const attention_params &p) {
    return (heads_of_group(p) + BLOCK_M - 1) / BLOCK_M * BLOCK_M;
}
__device__ __forceinline__ int rows_of_group(const attention_params &p) { return p.len_q * rows_of_query(p); }

__device__ __forceinline__ Row row_of_group(const attention_params &p, int kv_head, int row) {
    const int query = row / rows_of_query(p), head = row % rows_of_query(p);
    return head < heads_of_group(p) ? Row{query, kv_head * heads_of_group(p) + head} : Row{p.len_q, kv_head * heads_of_group(p)};
}

// Returns how many rows of a Q tile, the first ones, are not padding: the heads of its query, one after the other.
template <typename Tile> __device__ __forceinline__ int rows_in_tile(const attention_params &p, const Tile &tile) {
    return min(BLOCK_M, heads_of_group(p) - tile.row % rows_of_query(p));
}
