//$ needs head_dim head_dim_v stages step_m row_tiles_n columns_qk columns_v steps_qk steps_v
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/weigh_warp_keys.cuh"

// A block keeps BLOCK_N keys and goes over the queries of all heads that share them, STEP_M at a time.

// Starts the copies of a tile of queries.
__device__ __forceinline__ void copy_queries(const attention_backward_params &params, SharedKeys &shared, int stage,
                                             const OtherTile &tile) {
    const attention_params &p = params.forward;
    const int batch = tile.index / p.heads, head = tile.index % p.heads;
    head_rows(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, batch, head, p.len_q)
        .copy<HEAD_DIM>(shared.q[stage], tile.first);
    head_rows(params.d_o, params.d_o_batch_stride, params.d_o_head_stride, params.d_o_row_stride, batch, head, p.len_q)
        .copy<HEAD_DIM_V>(shared.d_o[stage], tile.first);
    const int row = static_cast<int>(threadIdx.x) % STEP_M;
    const bool of_lse = threadIdx.x < STEP_M, inside = tile.first + row < p.len_q;
    if (threadIdx.x < 2 * STEP_M) {
        const float *from = of_lse ? row_lse2(p, tile.index) : row_dots(p, tile.index);
        copy_async<4>(of_lse ? &shared.lse2[stage][row] : &shared.dot[stage][row], from + (inside ? tile.first + row : 0),
                      inside ? 4 : 0);
    }
}

// Sums over the queries of all heads that share the keys: dK, dV, or both. `careful`: a sum was not finite.
template <bool DK, bool DV>
__device__ __forceinline__ void go_over_queries(const attention_backward_params &params, SharedKeys &shared, int kv_index, int key0,
                                                int first, bool careful, float (&dk)[ROW_TILES_N][COLUMNS_QK / 2],
                                                float (&dv)[ROW_TILES_N][COLUMNS_V / 2]) {
    const attention_params &p = params.forward;
    const int batch = kv_index / p.kv_heads, kv_head = kv_index % p.kv_heads, group = p.heads / p.kv_heads;
#pragma unroll
    for (int t = 0; t < ROW_TILES_N; t++) {
#pragma unroll
        for (float &value : dk[t])
            value = 0;
#pragma unroll
        for (float &value : dv[t])
            value = 0;
    }
    QueryTiles walk = query_tiles(p, kv_index * group, group, key0);
    OtherTile tile = next_queries(p, walk);
    if (tile.first >= 0) {
        head_rows(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, batch, kv_head, p.len_kv)
            .copy<HEAD_DIM>(shared.k, key0);
        if constexpr (DK)
            head_rows(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, batch, kv_head, p.len_kv)
                .copy<HEAD_DIM_V>(shared.v, key0);
        copy_queries(params, shared, 0, tile);
    }
    int stage = 0;
#pragma unroll 1
    while (tile.first >= 0) {
        copy_async_wait();
        __syncthreads(); // the tile has arrived, and all warps have finished with the previous one
        OtherTile next = next_queries(p, walk);
        //$ if stages == 2
        if (next.first >= 0)
            copy_queries(params, shared, stage ^ 1, next);
        //$ end
        const Where at = where_is(p, tile.index);
        float s[ROW_TILES_N][STEP_M / 2], d_weight[ROW_TILES_N][STEP_M / 2];
        multiply_rows<STEPS_QK>(s, shared.k, first, shared.q[stage]);
        if constexpr (DK)
            multiply_rows<STEPS_V>(d_weight, shared.v, first, shared.d_o[stage]);
        if (tile.whole)
            weigh_keys<false>(s, d_weight, p, at, shared.lse2[stage], shared.dot[stage], tile.first, key0 + first);
        else
            weigh_keys<true>(s, d_weight, p, at, shared.lse2[stage], shared.dot[stage], tile.first, key0 + first);
        if (!careful) {
            if constexpr (DV)
                add_weighted<ROW_TILES_N, COLUMNS_V>(dv, s, shared.d_o[stage]);
            if constexpr (DK)
                add_weighted<ROW_TILES_N, COLUMNS_QK>(dk, d_weight, shared.q[stage]);
        } else {
            if constexpr (DV) {
                add_weighted<ROW_TILES_N, COLUMNS_V, true>(dv, s, shared.d_o[stage]);
                add_not_finite<ROW_TILES_N, COLUMNS_V>(dv, s, shared.d_o[stage]);
            }
            if constexpr (DK)
                add_weighted<ROW_TILES_N, COLUMNS_QK, true>(dk, d_weight, shared.q[stage]);
        }
        tile = next;
        //$ if stages == 2
        stage ^= 1;
        //$ else
        if (next.first >= 0) {
            __syncthreads(); // all warps have finished with the tile
            copy_queries(params, shared, 0, next);
        }
        //$ end
    }
}
