//$ needs head_dim_v sinks block_threads

// len_kv = 0: O = 0, LSE = -INFINITY, or the sink.
__device__ __forceinline__ void write_nothing(const attention_params &p) {
#pragma unroll 1
    for (int index = 0; index < p.batch * p.heads; index++) {
        long long batch = index / p.heads, head = index % p.heads;
#pragma unroll 1
        for (int query = blockIdx.x; query < p.len_q; query += gridDim.x) {
            Output *o = static_cast<Output *>(p.o) + batch * p.o_batch_stride + head * p.o_head_stride + query * p.o_row_stride;
#pragma unroll 1
            for (int i = threadIdx.x; i < HEAD_DIM_V; i += BLOCK_THREADS)
                o[i] = to_output(0);
            if (p.lse && threadIdx.x == 0)
                p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = tensor_sinks(p, head); //$ if sinks > 0
                p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = -INFINITY;             //$ else
        }
    }
}
