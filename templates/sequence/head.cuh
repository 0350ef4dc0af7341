//$ needs page_size kv_scale
//$ include "params/attention.h"
//$ include "sequence/element.cuh"

// Where the tensors of one head begin. All offsets are 64-bit: a tensor may hold more than 2^31 elements.

struct Head {
    const Input *q; // (len_q, head_dim), rows q_row_stride apart
    const InputKv *k; // (len_kv, head_dim); heads / kv_heads neighbouring heads share one
    const InputKv *v; // (len_kv, head_dim_v)
    const float *k_scale, *v_scale; // of the first key //$ if kv_scale != none
    Output *o;      // (len_q, head_dim_v)
    float *lse;     // (len_q), or null
};

// index = batch * heads + head
__device__ __forceinline__ Head head_at(const attention_params &p, long long index) {
    long long batch = index / p.heads, head = index % p.heads, kv_head = head / (p.heads / p.kv_heads);
    return {static_cast<const Input *>(p.q) + batch * p.q_batch_stride + head * p.q_head_stride,
            //$ if page_size > 0
            static_cast<const InputKv *>(p.k) + kv_head * p.k_head_stride, // in page 0
            static_cast<const InputKv *>(p.v) + kv_head * p.v_head_stride,
            //$ if kv_scale != none
            p.k_scale + kv_head * p.k_scale_head_stride, p.v_scale + kv_head * p.v_scale_head_stride,
            //$ end
            //$ else
            static_cast<const InputKv *>(p.k) + batch * p.k_batch_stride + kv_head * p.k_head_stride,
            static_cast<const InputKv *>(p.v) + batch * p.v_batch_stride + kv_head * p.v_head_stride,
            //$ if kv_scale != none
            p.k_scale + batch * p.k_scale_batch_stride + kv_head * p.k_scale_head_stride,
            p.v_scale + batch * p.v_scale_batch_stride + kv_head * p.v_scale_head_stride,
            //$ end
            //$ end
            static_cast<Output *>(p.o) + batch * p.o_batch_stride + head * p.o_head_stride,
            p.lse ? p.lse + batch * p.lse_batch_stride + head * p.lse_head_stride : nullptr};
}
