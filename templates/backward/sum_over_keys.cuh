//$ needs head_dim head_dim_v stages wants_dq wants_d_params block_m step_n row_tiles_m columns_qk steps_qk steps_v
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/weigh_warp_queries.cuh"

// A block keeps BLOCK_M queries and goes over the keys that they see, STEP_N at a time.

// Starts the copies of a tile of keys.
__device__ __forceinline__ void copy_keys(const attention_params &p, SharedQueries &shared, int stage, int batch, int kv_head,
                                          int key0) {
    head_rows(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, batch, kv_head, p.len_kv)
        .copy<HEAD_DIM>(shared.k[stage], key0);
    head_rows(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, batch, kv_head, p.len_kv)
        .copy<HEAD_DIM_V>(shared.v[stage], key0);
}

// The queries of a block, and the first row of a warp among them. Recomputed at each use, since registers are full.
struct QueryPlace {
    int index; // batch * heads + head
    int query0, first;
};
__device__ __forceinline__ QueryPlace place_of_queries(const attention_params &p) {
    const int tiles = (most_queries(p) + BLOCK_M - 1) / BLOCK_M;
    const TileOfHead own = tile_in_order(p, opaque(static_cast<int>(blockIdx.x)), p.batch * p.heads, tiles);
    // the last queries see the most keys
    return {own.head, (tiles - 1 - own.tile) * BLOCK_M, opaque(threadIdx.x) / 32 * 16 * ROW_TILES_M};
}

// Sums over the keys that the queries see. `careful`: a sum was not finite.
__device__ __forceinline__ void go_over_keys(const attention_backward_params &params, SharedQueries &shared, bool careful,
                                             QuerySums &sums) {
    const attention_params &p = params.forward;
    const QueryPlace place = place_of_queries(p);
    const int index = place.index, query0 = place.query0, first = place.first;
    const int batch = index / p.heads, head = index % p.heads, kv_head = head / (p.heads / p.kv_heads);
    const Where at = where_is(p, index);
    //$ if wants_dq == 1
#pragma unroll
    for (int t = 0; t < ROW_TILES_M; t++)
#pragma unroll
        for (float &value : sums.dq[t])
            value = 0;
    //$ end
    KeyTiles walk = key_tiles(p, at, query0);
    int key0 = next_keys(p, at, walk);
    if (key0 >= 0) {
        head_rows(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, batch, head, p.len_q).copy<HEAD_DIM>(shared.q, query0);
        head_rows(params.d_o, params.d_o_batch_stride, params.d_o_head_stride, params.d_o_row_stride, batch, head, p.len_q)
            .copy<HEAD_DIM_V>(shared.d_o, query0);
        copy_keys(p, shared, 0, batch, kv_head, key0);
    }
    int stage = 0;
#pragma unroll 1
    while (key0 >= 0) {
        copy_async_wait();
        __syncthreads(); // the tile has arrived, and all warps have finished with the previous one
        const int next = next_keys(p, at, walk);
        //$ if stages == 2
        if (next >= 0)
            copy_keys(p, shared, stage ^ 1, batch, kv_head, next);
        //$ end
        float s[ROW_TILES_M][STEP_N / 2], d_weight[ROW_TILES_M][STEP_N / 2];
        multiply_rows<STEPS_QK>(s, shared.q, first, shared.k[stage]);
        multiply_rows<STEPS_V>(d_weight, shared.d_o, first, shared.v[stage]);
        //$ if wants_d_params == 0
        if (all_pairs_seen(p, at, query0, BLOCK_M, key0, STEP_N))
            weigh_queries<false>(s, d_weight, params, at, shared, first, query0, key0);
        else
            weigh_queries<true>(s, d_weight, params, at, shared, first, query0, key0);
        //$ else
        if (all_pairs_seen(p, at, query0, BLOCK_M, key0, STEP_N))
            weigh_queries<false>(s, d_weight, params, at, !careful, sums, shared, first, query0, key0);
        else
            weigh_queries<true>(s, d_weight, params, at, !careful, sums, shared, first, query0, key0);
        //$ end
        //$ if wants_dq == 1
        if (careful)
            add_weighted<ROW_TILES_M, COLUMNS_QK, true>(sums.dq, d_weight, shared.k[stage]);
        else
            add_weighted<ROW_TILES_M, COLUMNS_QK>(sums.dq, d_weight, shared.k[stage]);
        //$ end
        key0 = next;
        //$ if stages == 2
        stage ^= 1;
        //$ else
        if (next >= 0) {
            __syncthreads(); // all warps have finished with the tile
            copy_keys(p, shared, 0, batch, kv_head, next);
        }
        //$ end
    }
}
