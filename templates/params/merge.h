/* The launch parameters of a kernel of this family. Valid in C and in CUDA C++; spliced into every source and filled by
   the runtime (launch.c). Strides are in elements; the last dimension is always contiguous. */
struct merge_params {
    const void *o_parts;    /* (parts, batch, heads, len_q, head_dim_v), each a normalised partial output */
    const float *lse_parts; /* (parts, batch, heads, len_q), natural logarithm */
    void *o;                /* (batch, heads, len_q, head_dim_v) */
    float *lse;             /* (batch, heads, len_q); null = not wanted */
    long long o_parts_part_stride, o_parts_batch_stride, o_parts_head_stride, o_parts_row_stride;
    long long lse_parts_part_stride, lse_parts_batch_stride, lse_parts_head_stride;
    long long o_batch_stride, o_head_stride, o_row_stride;
    long long lse_batch_stride, lse_head_stride;
    int parts, batch, heads, len_q;
};
