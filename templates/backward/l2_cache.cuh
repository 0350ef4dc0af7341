//$ needs head_dim head_dim_v dq_width
//$ include "params/attention_backward.h"

// Returns the bytes of Q, dO and the sums of dQ of so many heads. //$ if dq_width > 0
// Returns the bytes of Q and dO of so many heads.                 //$ else
__device__ __forceinline__ long long bytes_of_queries(const attention_params &p, long long heads) {
    return heads * p.len_q * (2 * HEAD_DIM + 2 * HEAD_DIM_V + 4 * DQ_WIDTH);
}
