//$ needs mask score sinks fixed_len_q fixed_len_kv fixed_heads fixed_kv_heads

/* What a kernel of this family is told at launch. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
//$ require fixed_heads == 0 or fixed_kv_heads == 0 or fixed_heads % fixed_kv_heads == 0
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
    int batch;
    //$ if fixed_heads > 0
#ifdef __cplusplus // the same places for the runtime, which is C, and constants for the kernel
    static constexpr int heads = FIXED_HEADS;
    int given_heads;
#endif
    //$ else
    int heads;
    //$ end
    //$ if fixed_kv_heads > 0
#ifdef __cplusplus
    static constexpr int kv_heads = FIXED_KV_HEADS;
    int given_kv_heads;
#endif
    //$ else
    int kv_heads;
    //$ end
    //$ if fixed_len_q > 0
#ifdef __cplusplus
    static constexpr int len_q = FIXED_LEN_Q;
    int given_len_q;
#endif
    //$ else
    int len_q;
    //$ end
    //$ if fixed_len_kv > 0
#ifdef __cplusplus
    static constexpr int len_kv = FIXED_LEN_KV;
    int given_len_kv;
#endif
    //$ else
    int len_kv;
    //$ end
    float scale; /* S = scale * Q K^T */
    //$ if mask == custom_mask or score == custom_score or sinks > 0

    /* What the mask and the score take, in the order of their declaration. Last, because kernels without do without. */
    struct attention_param {
        const void *data;    /* of a tensor */
        void *table;         /* the bounds of its runs of elements, if the mask asks for them; else null */
        long long stride[4]; /* in elements, of each dimension */
        int size[4];
        int whole; /* a scalar */
        float real;
    } param[16];
    //$ end
};
