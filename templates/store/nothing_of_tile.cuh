//$ needs head_dim_v sinks block_threads tile_rows

// A sequence without keys: O = 0, LSE = -INFINITY, or the sink, for the rows of a tile.
__device__ __forceinline__ void write_nothing(const attention_params &p, const Tile &tile) {
#pragma unroll 1
    for (int row = 0; row < TILE_ROWS; row++) {
        const Row at = row_of(p, tile, row / 64, row % 64);
        if (at.query >= p.len_q)
            continue;
        Output *o = static_cast<Output *>(p.o) + tile.batch * p.o_batch_stride + at.head * p.o_head_stride + at.query * p.o_row_stride;
#pragma unroll 1
        for (int i = threadIdx.x; i < HEAD_DIM_V; i += BLOCK_THREADS)
            o[i] = to_output(0);
        if (p.lse && threadIdx.x == 0)
            //$ if sinks > 0
            p.lse[tile.batch * p.lse_batch_stride + at.head * p.lse_head_stride + at.query] = tensor_sinks(p, at.head);
        //$ else
            p.lse[tile.batch * p.lse_batch_stride + at.head * p.lse_head_stride + at.query] = -INFINITY;
        //$ end
    }
}
