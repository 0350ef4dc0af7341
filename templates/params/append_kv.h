//$ needs rope rope_from

/* The launch parameters of a kernel of this family. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (append.c). Strides are in elements; the last dimension is always contiguous. Packed tensors have batch strides of
   0. */
struct append_kv_params {
    const void *q; /* (tokens, heads, head_dim) */
    const void *k; /* (tokens, kv_heads, head_dim) */
    const void *v; /* (tokens, kv_heads, head_dim_v) */
    void *q_out;   /* like q; may be q */
    void *k_cache; /* (batch, kv_heads, len_kv, head_dim); paged: (pages, kv_heads, tokens of a page, head_dim) */
    void *v_cache; /* likewise, with head_dim_v */
    long long q_batch_stride, q_head_stride, q_row_stride;
    long long q_out_batch_stride, q_out_head_stride, q_out_row_stride;
    long long k_batch_stride, k_head_stride, k_row_stride;
    long long v_batch_stride, v_head_stride, v_row_stride;
    long long k_cache_batch_stride, k_cache_head_stride, k_cache_row_stride;
    long long v_cache_batch_stride, v_cache_head_stride, v_cache_row_stride;
    float *k_scale, *v_scale; /* one value; (kv_heads); or the cache's shape without its last dimension, then written */
    long long k_scale_batch_stride, k_scale_head_stride, k_scale_row_stride;
    long long v_scale_batch_stride, v_scale_head_stride, v_scale_row_stride;
    const int *cu_seqlens_q;     /* (batch + 1): the first token of each sequence, and the end of the last */
    const int *lengths_kv;       /* (batch): tokens of each sequence, the new ones included */
    const int *page_table;       /* (batch, pages of a sequence): page numbers, the tokens of a sequence in order */
    const int *page_indptr;      /* (batch + 1): the first page number of each sequence in page_indices */
    const int *page_indices;     /* page numbers, sequence after sequence */
    const long long *slots;      /* (tokens): page * tokens of a page + row; a token whose slot is outside the cache is not written */
    const int *positions;        /* (tokens) */
    const float *rope_cos, *rope_sin; /* (rope_rows, pairs) */
    long long page_table_row_stride, rope_row_stride;
    int batch, heads, kv_heads;
    int tokens;   /* new tokens of all sequences, at most; heads is 0 if q is null */
    int len_q;    /* new tokens of one sequence, unless packed */
    int len_kv;   /* tokens of a sequence, at most */
    int pages;    /* of the cache */
    int rope_rows; /* number of positions in the tables */
    int aligned;  /* number of elements, a power of two, that divides all addresses and strides */
    //$ if rope != none and rope_from == base

    unsigned long long rope_turns[128]; /* of pair i: turns per position, in units of 2^-64. Last, because other kernels omit it */
    //$ end
};
