//$ needs head_dim head_dim_v layout dropout block_n step_m stages chunks chunks_v steps_qk steps_v threads blocks_at_once dependent_launches shared_keys column_warps warp_queries dq_column_warps
//$ launch attention_dk_dv_dq grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent
//$ include "backward/head_rows.cuh"
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_keys.cuh"
//$ include "backward/shared_products.cuh"
//$ include "backward/store_rows.cuh"
//$ include "backward/add_to_dq.cuh"
//$ include "backward/weigh_step.cuh"
//$ include "target/sm_90.cuh"

// --- dK, dV and dQ: keys down, queries across
//
// COLUMN_WARPS warps share 32 keys. Each computes S^T and dP^T of these keys and WARP_QUERIES queries. Then it computes dK and dV of the
// keys and its part of the columns, for which it needs P^T and dS^T of the other warps. For dQ, which needs dS^T of all warps, it
// computes 32 queries and DQ_COLUMNS columns.

constexpr int WARP_COLUMNS = HEAD_DIM / COLUMN_WARPS, WARP_COLUMNS_V = HEAD_DIM_V / COLUMN_WARPS;
constexpr int DQ_COLUMNS = HEAD_DIM / DQ_COLUMN_WARPS;
using WarpShare = Share<COLUMN_WARPS, WARP_COLUMNS>;
using WarpShareV = Share<COLUMN_WARPS, WARP_COLUMNS_V>;

struct SharedKeys {
    Rows16<BLOCK_N, CHUNKS> k;
    Rows16<BLOCK_N, CHUNKS_V> v;
    Rows16<STEP_M, CHUNKS> q[STAGES];
    Rows16<STEP_M, CHUNKS_V> d_o[STAGES];
    Rows16<BLOCK_N, STEP_M / 8> weights, d_s; // P^T and dS^T
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");

// Recomputed at each use, since registers are full.
struct WarpPlace {
    int first, part; // the warp's first key; the part of the queries and columns that belongs to the warp
};
__device__ __forceinline__ WarpPlace place_of_warp() {
    const int warp = opaque(static_cast<int>(threadIdx.x)) / 32;
    return {warp / COLUMN_WARPS * 32, warp % COLUMN_WARPS};
}

// Starts the copies of a tile of queries.
__device__ __forceinline__ void copy_queries(const attention_backward_params &params, SharedKeys &shared, int stage,
                                             const OtherTile &tile) {
    const attention_params &p = params.forward;
    const int batch = tile.index / p.heads, head = tile.index % p.heads;
    head_rows(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, batch, head, p.len_q)
        .copy<HEAD_DIM>(shared.q[stage], tile.first);
    head_rows(params.d_o, params.d_o_batch_stride, params.d_o_head_stride, params.d_o_row_stride, batch, head, p.len_q)
        .copy<HEAD_DIM_V>(shared.d_o[stage], tile.first);
    const int chunk = static_cast<int>(threadIdx.x) % (STEP_M / 4) * 4;
    const bool of_lse = threadIdx.x < STEP_M / 4;
    if (threadIdx.x < STEP_M / 2)
        copy_async<16>(of_lse ? &shared.lse2[stage][chunk] : &shared.dot[stage][chunk],
                       (of_lse ? row_lse2(p, tile.index) : row_dots(p, tile.index)) + tile.first + chunk, 16);
}

// Adds this warp's part of dQ = dS K of a step to the sums.
__device__ __forceinline__ void add_dq(const attention_params &p, const SharedKeys &shared, const OtherTile &tile) {
    const int warp = opaque(static_cast<int>(threadIdx.x)) / 32;
    const int row = warp / DQ_COLUMN_WARPS * 32;
    const Share<DQ_COLUMN_WARPS, DQ_COLUMNS> share = {warp % DQ_COLUMN_WARPS};
    float dq[2][DQ_COLUMNS / 2];
    clear(dq);
    add_product_of_shared<BLOCK_N, true>(dq, shared.d_s, 0, row, shared.k, 0, share);
    add_to_dq(p, tile.index, tile.first + row, share, dq);
}

// Stores this warp's share of dK and dV. Sums that are not finite are computed again.
__device__ __forceinline__ void store_gradients(const attention_backward_params &all, int kv_index, int key0,
                                                const float (&dk)[2][WARP_COLUMNS / 2], const float (&dv)[2][WARP_COLUMNS_V / 2]) {
    const attention_backward_params &params = sequence_of(all, opaque(kv_index) / all.forward.kv_heads);
    const attention_params &p = params.forward;
    const int batch = kv_index / p.kv_heads, kv_head = kv_index % p.kv_heads;
    const WarpPlace warp = place_of_warp();
    const WarpShare share = {warp.part};
    const WarpShareV share_v = {warp.part};
    const int row0 = key0 + warp.first, rows = p.len_kv - row0;
    const float factor_of_dv = p.dropout_factor; //$ if dropout == 1
    const float factor_of_dv = 1;                //$ else
    Nonfinite<WARP_COLUMNS / 2> nonfinite_dk[2];
    Nonfinite<WARP_COLUMNS_V / 2> nonfinite_dv[2];
    bool again = false;
#pragma unroll
    for (int t = 0; t < 2; t++) {
        again |= wants_repeat(dk[t]) || wants_repeat(dv[t]);
        nonfinite_dk[t] = nonfinite_sums(dk[t], rows - 16 * t);
        nonfinite_dv[t] = nonfinite_sums(dv[t], rows - 16 * t);
    }
    store_rows<WARP_COLUMNS>(dk, p.scale, params.dk, params.dk_batch_stride, params.dk_head_stride, params.dk_row_stride, batch, kv_head,
                             row0, rows, share);
    store_rows<WARP_COLUMNS_V>(dv, factor_of_dv, params.dv, params.dv_batch_stride, params.dv_head_stride, params.dv_row_stride, batch,
                               kv_head, row0, rows, share_v);
    if (!again)
        return;
#pragma unroll 1
    for (int t = 0; t < 2 && 16 * t < rows; t++) { // after the stores: the sums are no longer in registers
        repeat_dk<columns_of_pass(WarpShare::NEIGHBOURS)>(params, kv_index, row0 + 16 * t, nonfinite_dk[0], share);
        repeat_dv<columns_of_pass(WarpShareV::NEIGHBOURS)>(params, kv_index, row0 + 16 * t, nonfinite_dv[0], share_v);
        nonfinite_dk[0] = nonfinite_dk[1], nonfinite_dv[0] = nonfinite_dv[1];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dk_dv_dq(const __grid_constant__ attention_backward_params all) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const int tiles = (all.forward.len_kv + BLOCK_N - 1) / BLOCK_N;
    const TileOfHead own_tile = tile_in_order(all.forward, static_cast<int>(blockIdx.x), all.forward.batch * all.forward.kv_heads, tiles);
    const int key0 = own_tile.tile * BLOCK_N, kv_index = own_tile.head;
    const attention_backward_params &params = sequence_of(all, kv_index / all.forward.kv_heads);
    const attention_params &p = params.forward;
    if (key0 >= p.len_kv) return; // only longer sequences have these keys //$ if layout != dense
    const int group = p.heads / p.kv_heads;
    float dk[2][WARP_COLUMNS / 2], dv[2][WARP_COLUMNS_V / 2];
    clear(dk);
    clear(dv);

    QueryTiles walk = query_tiles(p, kv_index * group, group, key0);
    OtherTile tile = next_queries(p, walk);
    if (tile.first >= 0) {
        const int batch = kv_index / p.kv_heads, kv_head = kv_index % p.kv_heads;
        head_rows(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, batch, kv_head, p.len_kv)
            .copy<HEAD_DIM>(shared.k, key0);
        head_rows(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, batch, kv_head, p.len_kv)
            .copy<HEAD_DIM_V>(shared.v, key0);
        copy_queries(params, shared, 0, tile);
    }
    int stage = 0;
#pragma unroll 1
    while (tile.first >= 0) {
        copy_async_wait();
        __syncthreads(); // the tile has arrived, and all warps have finished with the previous one
        //$ if stages == 2
        const OtherTile next = next_queries(p, walk);
        if (next.first >= 0)
            copy_queries(params, shared, stage ^ 1, next);
        //$ end
        const WarpPlace warp = place_of_warp();
        const int first = warp.first, part_query = warp.part * WARP_QUERIES; // the warp's first key and query
        const WarpShare share = {warp.part};
        const WarpShareV share_v = {warp.part};
        float s[2][WARP_QUERIES / 2], d_weight[2][WARP_QUERIES / 2];
        multiply_shared_rows<STEPS_QK>(s, shared.k, first, shared.q[stage], part_query);
        weigh_scores(s, p.scale, address_in_shared(&shared.lse2[stage][part_query]));
        multiply_shared_rows<STEPS_V>(d_weight, shared.v, first, shared.d_o[stage], part_query);
        //$ if dropout == 1
        const int lane = static_cast<int>(threadIdx.x) % 32;
        unsigned kept[2];
        find_kept_keys<2, WARP_QUERIES>(kept, dropout_of(p, tile.index), tile.first + part_query + lane % 4 * 2,
                                        key0 + first + lane / 4);
        drop_gradients(d_weight, kept, p.dropout_factor);
        //$ end
        weigh_gradients(d_weight, s, address_in_shared(&shared.dot[stage][part_query]));
        drop_weights(s, kept); //$ if dropout == 1
        if (!tile.whole)
            hide_pairs(s, d_weight, p, where_is(p, tile.index), tile.first + part_query, key0 + first);
        unsigned weights[2][WARP_QUERIES / 16][4], d_s[2][WARP_QUERIES / 16][4]; // P^T and dS^T in 16 bits
        pack_tile(weights, s);
        pack_tile(d_s, d_weight);
        store_tile(shared.weights, first, part_query, weights);
        store_tile(shared.d_s, first, part_query, d_s);
        add_product_of_registers(dv, weights, shared.d_o[stage], part_query, share_v);
        add_product_of_registers(dk, d_s, shared.q[stage], part_query, share);
        __syncthreads(); // P and dS of all warps are in shared memory
        add_dq(p, shared, tile); // first, since its additions take time to reach memory
#pragma unroll
        for (int other = 1; other < COLUMN_WARPS; other++) {
            const int query = (warp.part ^ other) * WARP_QUERIES;
            add_product_of_shared<WARP_QUERIES, false>(dv, shared.weights, first, query, shared.d_o[stage], query, share_v);
            add_product_of_shared<WARP_QUERIES, false>(dk, shared.d_s, first, query, shared.q[stage], query, share);
        }
        //$ if stages == 2
        tile = next;
        stage ^= 1;
        //$ else
        tile = next_queries(p, walk);
        if (tile.first >= 0) {
            __syncthreads(); // all warps have finished with the previous tile
            copy_queries(params, shared, 0, tile);
        }
        //$ end
    }
    store_gradients(all, kv_index, walk.key0, dk, dv);
}
