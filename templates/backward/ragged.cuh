//$ needs wants_dq wants_dk wants_dv
//$ include "params/attention_backward.h"
//$ include "sequence/ragged.cuh"

// Turns the parameters of all sequences into those of one: its lengths and its rows of the packed tensors. Strides from one sequence to
// the next are 0.
__device__ __forceinline__ attention_backward_params sequence_of(const attention_backward_params &all, int batch) {
    attention_backward_params p = all;
    p.forward = sequence_of(all.forward, batch);
    const long long first_q = p.forward.first_q;
    p.forward.o = static_cast<Input *>(all.forward.o) + first_q * all.forward.o_row_stride; // O is an input here
    p.d_o = static_cast<const Input *>(all.d_o) + first_q * all.d_o_row_stride;
    p.d_lse = all.d_lse ? all.d_lse + first_q : nullptr;
    p.d_o_batch_stride = p.d_lse_batch_stride = 0;
    //$ if wants_dq == 1
    p.dq = static_cast<Output *>(all.dq) + first_q * all.dq_row_stride;
    p.dq_batch_stride = 0;
    //$ end
    //$ if wants_dk == 1
    p.dk = static_cast<Output *>(all.dk) + p.forward.first_kv * all.dk_row_stride;
    p.dk_batch_stride = 0;
    //$ end
    //$ if wants_dv == 1
    p.dv = static_cast<Output *>(all.dv) + p.forward.first_kv * all.dv_row_stride;
    p.dv_batch_stride = 0;
    //$ end
    return p;
}

// Returns how many queries of a head the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.max_len_q; }
