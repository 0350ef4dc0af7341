//$ include "fragment/unit.cuh"
//$ include "load/paged.cuh"

// Rows of K and V in pages of global memory, for cases too rare to keep stages of shared memory for. The last row stands in for a row
// that does not exist: its scores are masked.
__device__ __forceinline__ const Input *key_in_memory(const Unit &unit, int key) {
    const attention_params &p = unit.p;
    return static_cast<const Input *>(p.k) + unit.tile.kv_head * p.k_head_stride +
           paged_row(p, min(key, p.len_kv - 1), p.k_batch_stride, p.k_row_stride);
}
__device__ __forceinline__ const Input *value_in_memory(const Unit &unit, int key) {
    const attention_params &p = unit.p;
    return static_cast<const Input *>(p.v) + unit.tile.kv_head * p.v_head_stride +
           paged_row(p, min(key, p.len_kv - 1), p.v_batch_stride, p.v_row_stride);
}
