//$ needs head_dim_v sinks

// Writes a row without keys: O = 0, LSE = -INFINITY, or the sink. WRITERS threads write it; this one has number `thread`.
template <int WRITERS>
__device__ __forceinline__ void write_row_of_nothing(const attention_params &p, int batch, int head, int query, int thread) {
    Output *o = static_cast<Output *>(p.o) + batch * p.o_batch_stride + head * p.o_head_stride + query * p.o_row_stride;
#pragma unroll 1
    for (int i = thread; i < HEAD_DIM_V; i += WRITERS)
        o[i] = to_output(0);
    if (p.lse && thread == 0)
        p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = tensor_sinks(p, head); //$ if sinks > 0
        p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = -INFINITY;             //$ else
}
