//$ needs deterministic page_size pair_reads shared_kv wants wants_d_params
//$ require shared_kv == 0
//$ note No pages: they are for serving caches. Training data are packed or padded.
//$ require page_size == 0
//$ include "params/attention.h"
//$ require deterministic in [0, 1]
//$ require deterministic == 0 or pair_reads == 0

/* The launch parameters of a kernel of this family. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
struct attention_backward_params {
    //$ if wants == custom_wants and wants_d_params > 0
    /* Gradients of the score's parameters, with the indices of attention_param. First, because kernels without them omit it. */
    struct param_gradient {
        float *data;         /* null = not wanted */
        long long stride[4]; /* in elements, of each dimension; 0: summed over this dimension */
        int size[4];         /* 1 where the stride is 0 */
    } d_param[16];
    //$ end
    const void *d_o;    /* (batch, heads, len_q, head_dim_v) */
    const float *d_lse; /* (batch, heads, len_q); null = 0 */
    void *dq;           /* (batch, heads, len_q, head_dim) */
    void *dk;           /* (batch, kv_heads, len_kv, head_dim) */
    void *dv;           /* (batch, kv_heads, len_kv, head_dim_v) */
    float *d_sinks;     /* (heads); null = not wanted */
    long long d_o_batch_stride, d_o_head_stride, d_o_row_stride;
    long long d_lse_batch_stride, d_lse_head_stride;
    long long dq_batch_stride, dq_head_stride, dq_row_stride;
    long long dk_batch_stride, dk_head_stride, dk_row_stride;
    long long dv_batch_stride, dv_head_stride, dv_row_stride;
    /* The forward pass: its inputs, o and lse as it wrote them, and the workspace. Last, because its size varies. */
    struct attention_params forward;
};
