//$ needs clears_loaded plain dropout layout block_m step_n stages consumers panels panels_v block_threads producer_registers consumer_registers target_shared_bytes
//$ let query_bytes = block_m * 128 * (panels + panels_v)
//$ let kept_step_bytes = block_m * step_n / 8 if dropout == 1 else 0
//$ let k_step_bytes = step_n * 128 * panels + kept_step_bytes + 48
//$ let v_step_bytes = step_n * 128 * panels_v + 16
//$ note V is in use for a shorter part of a step than K.
//$ let v_stages = 2 if query_bytes + 2 * (k_step_bytes + v_step_bytes) + 64 <= target_shared_bytes else 1
//$ note If nothing else is computed beside the exponentials, dP of the next step is multiplied during this one, with V in a second tile.
//$ let d_weights_ahead = plain and v_stages == 2
//$ note Steps of Q as an operand in registers, as of K in the other launches.
//$ let own_q_steps = 3 if plain and step_n == 64 and layout == dense else 0
//$ let shared_queries = (query_bytes + stages * k_step_bytes + v_stages * v_step_bytes + 64 + 1023) / 1024 * 1024
//$ launch attention_dq grid batch * heads * ((len_q + block_m - 1) / block_m) block block_threads shared shared_queries dependent
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/repeat_queries.cuh"
//$ include "backward/restore_nan.cuh" if clears_loaded
//$ include "backward/weigh_queries.cuh"
//$ include "target/sm_90.cuh"

// --- dQ: queries down, keys across

struct alignas(1024) SharedQueries {
    Panels<PANELS, 64> q[CONSUMERS];
    Panels<PANELS_V, 64> d_o[CONSUMERS];
    Panels<PANELS, STEP_N> k[STAGES];
    Panels<PANELS_V, STEP_N> v[V_STAGES];
    unsigned short kept[STAGES][CONSUMERS][128][STEP_N / 32]; // one row per thread of a consumer //$ if dropout == 1
    Step step[STAGES];
    Barrier queries_full, k_full[STAGES], k_empty[STAGES], v_full[V_STAGES], v_empty[V_STAGES];
    Sequence sequence; //$ if layout != dense
};
static_assert(sizeof(SharedQueries) == SHARED_QUERIES, "as in the launch directive");

//$ include "backward/produce_keys.cuh"
//$ include "backward/draw_keys.cuh" if dropout == 1
//$ include "backward/consume_keys.cuh"

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedQueries &shared) {
    barrier_init(&shared.queries_full, 1);
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(&shared.k_full[stage], 1 + DRAWERS); //$ if dropout == 1
        barrier_init(&shared.k_full[stage], 1);           //$ else
        barrier_init(&shared.k_empty[stage], 4 * CONSUMERS); // warps
    }
    for (int stage = 0; stage < V_STAGES; stage++) {
        barrier_init(&shared.v_full[stage], 1);
        barrier_init(&shared.v_empty[stage], CONSUMERS);
    }
    barrier_init_fence();
}

// Waits for the launches before. Called by all threads at the end. //$ if not clears_loaded
// Waits for the launches before, and clears what producers have asked for. Called by all threads at the end. //$ else
__device__ __forceinline__ void finish_dq(const attention_params &all) {
    grid_dependency_wait();
    if (blockIdx.x == 0 && threadIdx.x == 0) *nan_found(all) = 0; //$ if clears_loaded
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dq(const __grid_constant__ attention_backward_tma_params params) {
    SharedQueries &shared = *dynamic_shared<SharedQueries>();
    const attention_params &all = params.backward.forward;
    const int tiles = (all.len_q + BLOCK_M - 1) / BLOCK_M;
    const TileOfHead own_tile = tile_in_order(all, static_cast<int>(blockIdx.x), all.batch * all.heads, tiles);
    const int query0 = (tiles - 1 - own_tile.tile) * BLOCK_M, index = own_tile.head; // the last queries see the most keys
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    grid_dependency_begun(); // dQ needs nothing from dK and dV
    launch_dependents();
    //$ if layout != dense
    const attention_params own = sequence_of(all, index / all.heads);
    if (query0 >= own.len_q) {
        finish_dq(all);
        return;
    }
    if (threadIdx.x == 0)
        shared.sequence = numbers_of(own);
    //$ end
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0)
            produce_keys(params, shared, index, query0);
        else draw_keys(all, shared, index, query0, warp_index() - 1); //$ if dropout == 1
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        QueriesConsumer consumer(params.backward, shared, warpgroup_index() - 1, index, query0);
        consumer.run();
        consumer.store(index); //$ if not clears_loaded
        //$ if clears_loaded
        const bool nonfinite = consumer.store(index);
        grid_dependency_wait(); // dV is complete
        if (nonfinite)
            restore_nan(tensors_of_queries(params.backward, index), index, consumer.first);
        //$ end
    }
    finish_dq(all);
}
