//$ let one_query = false
//$ include "params/attention.h"

// Rows of Q that share a K/V head: query by query, and for each query all heads of the group.

// The query and the head that a row belongs to.
struct Row {
    int query; // len_q or more: padding
    int head;
};

__device__ __forceinline__ int heads_of_group(const attention_params &p) { return p.heads / p.kv_heads; }
__device__ __forceinline__ int rows_of_query(const attention_params &p) { return heads_of_group(p); }
__device__ __forceinline__ int rows_of_group(const attention_params &p) { return p.len_q * rows_of_query(p); }

__device__ __forceinline__ Row row_of_group(const attention_params &p, int kv_head, int row) {
    const unsigned group = heads_of_group(p), index = row;
    return {static_cast<int>(index / group), kv_head * static_cast<int>(group) + static_cast<int>(index % group)};
}
