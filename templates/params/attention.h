//$ needs mask score sinks dropout batch_invariant split_keys quantised kv_scale fixed_len_q fixed_len_kv fixed_heads fixed_kv_heads layout page_size page_table head_dim head_dim_v shared_kv append rope rope_dim rope_from algorithm

/* The launch parameters of a kernel of this family. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
//$ require batch_invariant in [0, 1]
//$ require fixed_heads == 0 or fixed_kv_heads == 0 or fixed_heads % fixed_kv_heads == 0
//$ require layout == dense or fixed_len_kv == 0
//$ require layout != ragged or fixed_len_q == 0
//$ require page_size in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
//$ require page_size == 0 or layout != dense
//$ require page_size > 0 or page_table == table
//$ require kv_scale == none or quantised == 1
//$ require shared_kv == 0 or head_dim_v <= head_dim
//$ note Only decode writes to the cache: other kernels need an append_kv launch first.
//$ require append == 0 or algorithm == decode
//$ require append == 0 or (layout == padded or page_size > 0)
//$ require rope == none or append == 1
//$ require rope != none or (rope_dim == 0 and rope_from == base)
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
#ifdef __cplusplus // the same layout as for the runtime, which is C, and constants for the kernel
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
    //$ if split_keys > 0
    int splits; /* maximum number of parts of a Q tile's K/V tiles; 1 = not split, and O is stored directly */
    //$ end
    //$ if layout != dense

    /* Sequences with individual lengths, which stay on the device; the lengths above are the maxima. A kernel works on one
       sequence through sequence_of (sequence/). Arrays that the layout does not have are null. */
    const int *cu_seqlens_q;     /* (batch + 1): the first row of each sequence in the packed Q and O, and the end of the last */
    const int *cu_seqlens_kv;    /* (batch + 1): the same of K and V */
    const int *lengths_kv;       /* (batch): keys of each sequence */
    const int *page_table;       /* (batch, pages of a sequence): page numbers, in the order of the keys */
    const int *page_indptr;      /* (batch + 1): the first page number of each sequence in page_indices */
    const int *page_indices;
    long long page_table_row_stride;
    int pages;                   /* of K and V: page numbers are smaller */
    int total_q, total_kv;       /* rows of the packed tensors */
    int max_len_q, max_len_kv;   /* the same as len_q and len_kv, which sequence_of replaces */
    int first_q, first_kv;       /* set by sequence_of: the sequence's first row of the packed tensors */
    //$ end
    //$ if dropout == 1

    /* Which weights are dropped (fragment/dropout.cuh). */
    const unsigned long long *dropout_state; /* seed and offset that replace the next two; null = the next two hold */
    unsigned long long dropout_seed, dropout_offset;
    unsigned dropout_threshold; /* 2^16 times the probability, in the upper half */
    float dropout_factor;       /* of the kept weights: 1 / (1 - probability) */
    //$ end
    //$ if kv_scale != none

    /* Factors of the elements of K and V: one, one per K/V head, or one per row of K and V, depending on kv_scale.
       Strides of dimensions that they do not have are 0. */
    const float *k_scale, *v_scale;
    long long k_scale_batch_stride, k_scale_head_stride, k_scale_row_stride;
    long long v_scale_batch_stride, v_scale_head_stride, v_scale_row_stride;
    //$ end
    //$ if append == 1

    /* New tokens, which the launch writes into K and V: the last len_q keys of each sequence. */
    const void *k_new; /* (batch, kv_heads, len_q, head_dim), packed as Q is */
    const void *v_new; /* (batch, kv_heads, len_q, head_dim_v) */
    long long k_new_batch_stride, k_new_head_stride, k_new_row_stride;
    long long v_new_batch_stride, v_new_head_stride, v_new_row_stride;
    const float *rope_cos, *rope_sin; /* (rope_rows, pairs) */
    long long rope_row_stride;
    int rope_rows; /* number of positions in the tables */
    //$ end
    //$ if rope != none and rope_from == base

    unsigned long long rope_turns[128]; /* of pair i: turns per position, in units of 2^-64 */
    //$ end
    //$ if mask == custom_mask or score == custom_score or sinks > 0

    /* The parameters of the mask and the score, in declaration order. Last, because kernels without them omit it. */
    struct attention_param {
        const void *data;    /* of a tensor */
        void *table;         /* the bounds of its runs of elements, if the mask needs them; else null */
        long long stride[4]; /* in elements, of each dimension */
        int size[4];
        int whole; /* a scalar */
        float real;
    } param[16];
    //$ end
};
