/* What a kernel of this family is told at launch. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
struct attention_params {
    const void *q;   /* (batch, heads, len_q, head_dim) */
    const void *k;   /* (batch, kv_heads, len_kv, head_dim) */
    const void *v;   /* (batch, kv_heads, len_kv, head_dim_v) */
    void *o;         /* (batch, heads, len_q, head_dim_v) */
    float *lse;      /* (batch, heads, len_q), natural logarithm; null = not wanted */
    void *workspace; /* as many bytes as the plan says; 256-byte aligned */
    long long q_batch_stride, q_head_stride, q_row_stride;
    long long k_batch_stride, k_head_stride, k_row_stride;
    long long v_batch_stride, v_head_stride, v_row_stride;
    long long o_batch_stride, o_head_stride, o_row_stride;
    long long lse_batch_stride, lse_head_stride;
    int batch, heads, kv_heads, len_q, len_kv;
    float scale; /* S = scale * Q K^T */
};
