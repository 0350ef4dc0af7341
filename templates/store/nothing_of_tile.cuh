//$ needs head_dim_v sinks block_m block_threads tile_rows split_keys

// A sequence without keys: O = 0, LSE = -INFINITY, or the sink, for the rows of a tile.
__device__ __forceinline__ void write_nothing(const attention_params &p, const Tile &tile) {
    //$ if tile_rows > block_m
    if (cluster_rank() > 0)
        return; // the first block of the cluster does it
    //$ end
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
            p.lse[tile.batch * p.lse_batch_stride + at.head * p.lse_head_stride + at.query] = tensor_sinks(p, at.head); //$ if sinks > 0
            p.lse[tile.batch * p.lse_batch_stride + at.head * p.lse_head_stride + at.query] = -INFINITY;                //$ else
    }
}

// Is there something to compute? If not, O and LSE of rows that have no keys are written.
__device__ __forceinline__ bool has_work(const attention_params &p, const Tile &tile) {
    if (tile.query >= p.len_q)
        return false;
    //$ if split_keys > 0
    if (!has_part(p, tile) || (p.splits > 1 && p.len_kv == 0))
        return false; // attention_combine writes what no part has
    //$ end
    if (p.len_kv != 0)
        return true;
    write_nothing(p, tile);
    return false;
}
