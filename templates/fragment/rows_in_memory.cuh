//$ needs page_size
//$ include "fragment/unit.cuh"

// Rows in global memory, for what happens too seldom to keep stages of shared memory for. In place of a row that is not there, the
// last one: its scores are masked, or not stored.
__device__ __forceinline__ const Input *query_in_memory(const Unit &unit, int row) {
    const attention_params &p = unit.p;
    const Row at = unit.at(row);
    return static_cast<const Input *>(p.q) + unit.tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
           min(at.query, p.len_q - 1) * p.q_row_stride;
}
//$ if page_size > 0
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
//$ else
__device__ __forceinline__ const Input *key_in_memory(const Unit &unit, int key) {
    const attention_params &p = unit.p;
    return static_cast<const Input *>(p.k) + unit.tile.batch * p.k_batch_stride + unit.tile.kv_head * p.k_head_stride +
           min(key, p.len_kv - 1) * p.k_row_stride;
}
__device__ __forceinline__ const Input *value_in_memory(const Unit &unit, int key) {
    const attention_params &p = unit.p;
    return static_cast<const Input *>(p.v) + unit.tile.batch * p.v_batch_stride + unit.tile.kv_head * p.v_head_stride +
           min(key, p.len_kv - 1) * p.v_row_stride;
}
//$ end
