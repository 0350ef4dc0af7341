// The gradients of attention by tiles on the tensor cores of every GPU since compute capability 8.0. P and dS of a tile are formed
// again from Q, K, V, dO and LSE. Some blocks own keys and others queries, so that no sum crosses blocks:
//
//     dK, dV    a block keeps BLOCK_N keys and walks over STEP_M queries at a time, of all heads that share the keys
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//     dQ        a block keeps BLOCK_M queries and walks over STEP_N keys at a time
//               S = Q K^T,  dP = dO V^T,  dQ += dS K
//
// Each warp owns 16 or 32 rows. With them in front, P and dS stand in its registers as the next product wants them.
//$ note Rows of more than 128 elements leave no room for dK beside dV: they are two launches then.
//$ include "attention_backward_mma.cuh"
//$ note Sequences with lengths of their own: a block works on one of them.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "backward/row_dots_launch.cuh"
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ let head_sums = head_reads
//$ let head_part_rows = block_m
//$ include "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/head_sums.cuh" if wants_d_params > 0 and head_reads > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ launch attention_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if apart and wants_dv == 1
//$ launch attention_dk grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if apart and wants_dk == 1
//$ launch attention_dk_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if not apart
//$ launch attention_dq grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_queries dependent if wants_dq == 1 or wants_d_params > 0
//$ include "backward/head_d_params_launch.cuh" if wants_d_params > 0 and head_reads > 0
//$ workspace 4 * batch * heads * (2 * len_q + head_sums * (threads / 32) * ((len_q + block_m - 1) / block_m)) if head_sums > 0 else 8 * batch * heads * len_q
//$ include "target/sm_90.cuh"
//$ include "backward/gradients.cuh"
//$ include "backward/head_rows.cuh"
//$ include "backward/kept_pairs.cuh" if dropout == 1
//$ include "backward/weigh_tile.cuh"
//$ include "backward/warp_products.cuh"
//$ include "backward/strange_values.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/store_rows.cuh"

//$ if wants_dk == 1 or wants_dv == 1
// --- dK and dV: keys down, queries across

struct SharedKeys {
    Rows16<BLOCK_N, CHUNKS> k;
    Rows16<BLOCK_N, CHUNKS_V> v;
    Rows16<STEP_M, CHUNKS> q[STAGES];
    Rows16<STEP_M, CHUNKS_V> d_o[STAGES];
    float lse2[STAGES][STEP_M], dot[STAGES][STEP_M];
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");
//$ include "backward/sum_over_queries.cuh"

// The block's keys.
template <bool DK, bool DV> __device__ __forceinline__ void sum_of_keys(const attention_backward_params &all) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const int tiles = (all.forward.len_kv + BLOCK_N - 1) / BLOCK_N;
    const TileOfHead own_tile = tile_in_order(static_cast<int>(blockIdx.x), all.forward.batch * all.forward.kv_heads, tiles);
    const int key0 = own_tile.tile * BLOCK_N, kv_index = own_tile.head;
    const attention_backward_params &params = sequence_of(all, kv_index / all.forward.kv_heads);
    const attention_params &p = params.forward;
    if (key0 >= p.len_kv) return; // only longer sequences have these keys //$ if layout != dense
    const int first = static_cast<int>(threadIdx.x) / 32 * 16 * ROW_TILES_N; // row of this warp
    float dk[ROW_TILES_N][COLUMNS_QK / 2], dv[ROW_TILES_N][COLUMNS_V / 2];
#pragma unroll 1
    for (int careful = 0; careful < 2; careful++) {
        go_over_queries<DK, DV>(params, shared, kv_index, key0, first, careful, dk, dv);
        if (!some_thread_says(has_not_finite(dk) || has_not_finite(dv), shared.q))
            break;
    }

    const int batch = kv_index / p.kv_heads, kv_head = kv_index % p.kv_heads;
    const int rows = p.len_kv - key0 - first;
    if constexpr (DK)
        store_rows<HEAD_DIM>(dk, p.scale, params.dk, params.dk_batch_stride, params.dk_head_stride, params.dk_row_stride, batch,
                             kv_head, key0 + first, rows);
    const float factor_of_dv = p.dropout_factor; //$ if dropout == 1
    const float factor_of_dv = 1;                //$ else
    if constexpr (DV)
        store_rows<HEAD_DIM_V>(dv, factor_of_dv, params.dv, params.dv_batch_stride, params.dv_head_stride, params.dv_row_stride, batch,
                               kv_head, key0 + first, rows);
}

//$ if apart and wants_dv == 1
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dv(const __grid_constant__ attention_backward_params params) {
    sum_of_keys<false, true>(params);
}

//$ end
//$ if apart and wants_dk == 1
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dk(const __grid_constant__ attention_backward_params params) {
    sum_of_keys<true, false>(params);
}
//$ end
//$ if not apart
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dk_dv(const __grid_constant__ attention_backward_params params) {
    sum_of_keys<true, true>(params);
}
//$ end

//$ end
//$ if wants_dq == 1 or wants_d_params > 0
// --- dQ: queries down, keys across

struct SharedQueries {
    Rows16<BLOCK_M, CHUNKS> q;
    Rows16<BLOCK_M, CHUNKS_V> d_o;
    Rows16<STEP_N, CHUNKS> k[STAGES];
    Rows16<STEP_N, CHUNKS_V> v[STAGES];
    float lse2[BLOCK_M], dot[BLOCK_M];
};
static_assert(sizeof(SharedQueries) == SHARED_QUERIES, "as in the launch directive");
//$ include "backward/sum_over_keys.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dq(const __grid_constant__ attention_backward_params all) {
    SharedQueries &shared = *dynamic_shared<SharedQueries>();
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const QueryPlace place = place_of_queries(all.forward);
    const attention_backward_params &params = sequence_of(all, place.index / all.forward.heads);
    const attention_params &p = params.forward;
    if (place.query0 >= p.len_q) return; // only longer sequences have these queries //$ if layout == ragged
    for (int row = threadIdx.x; row < BLOCK_M; row += THREADS) {
        const int query = min(place.query0 + row, p.len_q - 1);
        shared.lse2[row] = row_lse2(p, place.index)[query];
        shared.dot[row] = row_dots(p, place.index)[query];
    }
    QuerySums sums;
    for (float &value : sums.of_head) value = 0; //$ if head_reads > 0
    //$ if wants_dq == 1
#pragma unroll 1
    for (int careful = 0; careful < 2; careful++) {
        go_over_keys(params, shared, careful, sums);
        if (!some_thread_says(has_not_finite(sums.dq), shared.k))
            break;
    }
    //$ else
    go_over_keys(params, shared, false, sums);
    //$ end
    const QueryPlace at = place_of_queries(p); //$ if wants_dq == 1 or head_reads > 0
    store_head_sums(p, sums.of_head, at.index, at.query0 / BLOCK_M); //$ if head_reads > 0
    //$ if wants_dq == 1
    const int row0 = at.query0 + at.first;
    store_rows<HEAD_DIM>(sums.dq, p.scale, params.dq, params.dq_batch_stride, params.dq_head_stride, params.dq_row_stride,
                         at.index / p.heads, at.index % p.heads, row0, p.len_q - row0);
    //$ end
}
//$ end
