//$ include "fragment/unit.cuh"

// A row of Q in global memory, for cases too rare to keep stages of shared memory for. The last row stands in for a row that does not
// exist: its scores are not stored.
__device__ __forceinline__ const Input *query_in_memory(const Unit &unit, int row) {
    const attention_params &p = unit.p;
    const Row at = unit.at(row);
    return static_cast<const Input *>(p.q) + unit.tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
           min(at.query, p.len_q - 1) * p.q_row_stride;
}
