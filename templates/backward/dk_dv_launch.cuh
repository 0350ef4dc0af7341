//$ needs apart wants_dk wants_dv dropout layout head_dim head_dim_v block_n step_m stages chunks chunks_v row_tiles_n columns_qk columns_v threads blocks_at_once dependent_launches shared_keys
//$ launch attention_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if apart and wants_dv == 1
//$ launch attention_dk grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if apart and wants_dk == 1
//$ launch attention_dk_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_keys dependent if not apart
//$ include "backward/head_rows.cuh"
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/nonfinite_values.cuh"
//$ include "backward/store_rows.cuh"
//$ include "target/sm_90.cuh"

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

// Computes and stores dK, dV, or both for the block's keys.
template <bool DK, bool DV> __device__ __forceinline__ void sum_of_keys(const attention_backward_params &all) {
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
    const int first = static_cast<int>(threadIdx.x) / 32 * 16 * ROW_TILES_N; // first row of this warp
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
