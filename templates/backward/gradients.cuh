//$ include "params/attention_backward.h"
//$ include "sequence/head.cuh"

// Where the tensors of one head begin: those that only the backward pass has, and O, which it reads.
struct HeadGradients {
    const Input *o, *d_o; // (len_q, head_dim_v)
    const float *d_lse;   // (len_q), or null
    Output *dq;           // (len_q, head_dim)
    Output *dk;           // (len_kv, head_dim); heads / kv_heads neighbouring heads share one
    Output *dv;           // (len_kv, head_dim_v)
};

// index = batch * heads + head
__device__ __forceinline__ HeadGradients gradients_at(const attention_backward_params &p, long long index) {
    const attention_params &f = p.forward;
    const long long batch = index / f.heads, head = index % f.heads, kv_head = head / (f.heads / f.kv_heads);
    return {static_cast<const Input *>(f.o) + batch * f.o_batch_stride + head * f.o_head_stride,
            static_cast<const Input *>(p.d_o) + batch * p.d_o_batch_stride + head * p.d_o_head_stride,
            p.d_lse ? p.d_lse + batch * p.d_lse_batch_stride + head * p.d_lse_head_stride : nullptr,
            static_cast<Output *>(p.dq) + batch * p.dq_batch_stride + head * p.dq_head_stride,
            static_cast<Output *>(p.dk) + batch * p.dk_batch_stride + kv_head * p.dk_head_stride,
            static_cast<Output *>(p.dv) + batch * p.dv_batch_stride + kv_head * p.dv_head_stride};
}
