//$ needs head_dim_v sinks block_threads

// Sequences without keys: O = 0, LSE = -INFINITY, or the sink. A block has some of the sequences, a warp a row of O.
__device__ __forceinline__ void write_nothing(const attention_params &all) {
#pragma unroll 1
    for (int batch = blockIdx.x; batch < all.batch; batch += gridDim.x) {
        const attention_params p = sequence_of(all, batch);
        if (p.len_kv > 0)
            continue;
#pragma unroll 1
        for (int row = warp_index(); row < p.heads * p.len_q; row += BLOCK_THREADS / 32) {
            const int head = row % p.heads, query = row / p.heads;
            Output *o = static_cast<Output *>(p.o) + batch * p.o_batch_stride + head * p.o_head_stride + query * p.o_row_stride;
#pragma unroll 1
            for (int i = threadIdx.x % 32; i < HEAD_DIM_V; i += 32)
                o[i] = to_output(0);
            if (p.lse && threadIdx.x % 32 == 0)
                p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = tensor_sinks(p, head); //$ if sinks > 0
                p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = -INFINITY;             //$ else
        }
    }
}
