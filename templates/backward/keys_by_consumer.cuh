//$ needs mask_tables clears_loaded d_s_of_keys products_within_step dq_ordered values_apart value_stages tma_statistics consumers stages d_o_stages key_stages kept_stages step_m panels panels_v dq_added dq_staged dq_columns dropout bias_copied tiles_found_ahead most_shares products_ahead apart pingpong_schedule wants_d_params producer_registers consumer_registers block_threads shared_keys most_d_o_tiles

// --- dK and dV: keys down, queries across

constexpr int ITEMS_KEPT = KEY_STAGES;
//$ include "backward/found_tiles.cuh" if tiles_found_ahead

//$ include "backward/dq_order.cuh" if dq_ordered and not dq_staged
//$ if dq_staged
// Where the consumers' parts of dQ belong.
struct DqPart {
    int tile; // dQ tile of the step's first 64 queries; negative after the last step
    int before; // number of key tiles whose dQ is added first //$ if dq_ordered
};
//$ end

struct alignas(1024) SharedKeys {
    Panels<PANELS, 64> k[KEY_STAGES][CONSUMERS];
    Panels<PANELS_V, 64> v[VALUE_STAGES][CONSUMERS];
    Panels<PANELS_V, STEP_M> d_o[D_O_STAGES]; // directly after V, whose place has more of these tiles if V is not read
    Panels<PANELS, STEP_M> q[STAGES];
    Panels<STEP_M / 64, 64> d_s[2][CONSUMERS]; // dS^T, (keys, queries) //$ if d_s_of_keys
    Panels<STEP_M / 64, 64> d_s[2][CONSUMERS]; // dS, (queries, keys) //$ elif dq_added
    float dq[CONSUMERS][DQ_COLUMNS / 8][128][4]; // dQ of 64 queries each, in the order of the sums //$ if dq_staged
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
    unsigned short kept[KEPT_STAGES][CONSUMERS][128][STEP_M / 32]; // one row per thread of a consumer //$ if dropout == 1
    alignas(16) BiasTile bias[STAGES]; //$ if bias_copied
    Step step[STAGES];
    Item item[KEY_STAGES];
    FoundTiles found; //$ if tiles_found_ahead
    Shares shares; //$ if most_shares > 0
    DqPart dq_part[CONSUMERS]; // where dq[] belongs //$ if dq_staged
    DqOrder dq_order[ORDER_WARPS]; //$ if dq_ordered and not dq_staged
    Barrier found_full, found_empty; //$ if tiles_found_ahead
    Barrier nan_full; //$ if clears_loaded
    Barrier keys_full[KEY_STAGES], keys_empty[KEY_STAGES], q_full[STAGES], q_empty[STAGES];
    Barrier values_full, values_empty; //$ if values_apart
    Barrier d_o_full[MOST_D_O_TILES], d_o_empty[MOST_D_O_TILES];
    Barrier kept_empty; //$ if dropout == 1 and kept_stages == 1
    Barrier d_s_full[2], d_s_empty[2]; //$ if dq_added and not products_within_step
    Barrier dq_full[CONSUMERS], dq_empty[CONSUMERS]; //$ if dq_staged
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");
static_assert(sizeof(SharedKeys::v) == CONSUMERS * sizeof(Panels<PANELS_V, STEP_M>), "a tile of dO in the place of each consumer's V"); //$ if apart

//$ include "backward/produce_queries.cuh"
//$ include "backward/draw_queries.cuh" if dropout == 1
//$ include "backward/copy_bias.cuh" if bias_copied
//$ include "backward/add_dq.cuh" if dq_staged
//$ include "backward/add_d_params.cuh" if wants_d_params > 0
//$ include "backward/keep_order.cuh" if dq_ordered and not dq_staged
//$ include "backward/consume_queries.cuh"
//$ include "backward/products_ahead.cuh" if products_ahead
//$ include "backward/products_within_step.cuh" if products_within_step
//$ include "backward/scores_ahead.cuh" if apart or not (products_ahead or products_within_step)

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedKeys &shared) {
    //$ if tiles_found_ahead
    barrier_init(&shared.found_full, 1);
    barrier_init(&shared.found_empty, 1);
    //$ end
    barrier_init(&shared.nan_full, 1); //$ if clears_loaded
    for (int stage = 0; stage < KEY_STAGES; stage++) {
        barrier_init(&shared.keys_full[stage], 1);
        barrier_init(&shared.keys_empty[stage], CONSUMERS + DRAWERS);    //$ if dropout == 1
        barrier_init(&shared.keys_empty[stage], CONSUMERS + 1 + ADDERS); //$ elif bias_copied and wants_d_params > 0
        barrier_init(&shared.keys_empty[stage], CONSUMERS + 1);          //$ elif bias_copied
        barrier_init(&shared.keys_empty[stage], CONSUMERS + ADDERS);     //$ elif wants_d_params > 0
        barrier_init(&shared.keys_empty[stage], CONSUMERS);              //$ else
    }
    for (int stage = 0; stage < STAGES; stage++) {
        // arrivals: one for the bytes of Q, one for each lane that copies statistics //$ if not tma_statistics
        barrier_init(&shared.q_full[stage], 1 + 32 + DRAWERS); // plus the warps that draw       //$ if dropout == 1
        barrier_init(&shared.q_full[stage], 1 + 32 + 32); // plus the lanes that copy a bias     //$ elif bias_copied
        barrier_init(&shared.q_full[stage], 1);                                                  //$ elif tma_statistics
        barrier_init(&shared.q_full[stage], 1 + 32);                                             //$ else
        barrier_init(&shared.q_empty[stage], CONSUMERS);     //$ if dq_added
        barrier_init(&shared.q_empty[stage], 4 * CONSUMERS); // warps //$ else
    }
    barrier_init(&shared.kept_empty, 4 * CONSUMERS); // warps //$ if dropout == 1 and kept_stages == 1
    for (int stage = 0; stage < MOST_D_O_TILES; stage++) {
        barrier_init(&shared.d_o_full[stage], 1);
        barrier_init(&shared.d_o_empty[stage], CONSUMERS);
    }
    //$ if dq_added and not products_within_step
    for (int buffer = 0; buffer < 2; buffer++) {
        barrier_init(&shared.d_s_full[buffer], 4 * CONSUMERS); // warps
        barrier_init(&shared.d_s_empty[buffer], D_S_READERS + ADDERS); //$ if wants_d_params > 0
        barrier_init(&shared.d_s_empty[buffer], D_S_READERS);          //$ else
    }
    //$ end
    //$ if dq_staged
    for (int consumer = 0; consumer < CONSUMERS; consumer++) {
        barrier_init(&shared.dq_full[consumer], 4); // warps
        barrier_init(&shared.dq_empty[consumer], 1);
    }
    //$ end
    init_order(shared); //$ if dq_ordered and not dq_staged
    //$ if values_apart
    barrier_init(&shared.values_full, 1);
    barrier_init(&shared.values_empty, CONSUMERS);
    //$ end
    barrier_init_fence();
}

// Computes dK, dV, or both for all items that the block takes.
template <bool DK, bool DV> __device__ __forceinline__ void go_over_queries(const attention_backward_tma_params &params) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    if (warp_index() == 1 && elect_one()) shared.shares = shares_of(params.backward.forward); //$ if most_shares > 0
    const ItemCounter counter = counter_of_items(params.backward.forward, DV ? 0 : 1); //$ if mask_tables == 0
    if constexpr (DV)
        grid_dependency_wait();
    else
        grid_dependency_begun(); // after the launch of dV, from which dK needs nothing
    //$ if mask_tables > 0
    // only now: the number of parts depends on bounds of tensors, which an earlier launch finds
    const ItemCounter counter = counter_of_items(params.backward.forward, DV ? 0 : 1);
    //$ end
    launch_dependents();
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        //$ if clears_loaded
        const bool some_nan = *nan_found(params.backward.forward) == NAN_FOUND;
        if (warp_index() == 0 && some_nan)
            produce_queries<DK, true>(params, shared, counter);
        else if (warp_index() == 0)
            produce_queries<DK, false>(params, shared, counter);
        //$ else
        if (warp_index() == 0)
            produce_queries<DK>(params, shared, counter); //$ if not tiles_found_ahead
            produce_queries<DK>(params, shared);          //$ else
        //$ end
        //$ if tiles_found_ahead
        else if (warp_index() == 1)
            find_tiles(params.backward.forward, shared, counter);
        //$ end
        else draw_queries(params.backward.forward, shared, warp_index() - 1); //$ if dropout == 1
        else if (warp_index() == 1) copy_bias(params.backward.forward, shared); //$ if bias_copied
        else if (warp_index() > 1) add_d_params(params.backward, shared, warp_index() - 2); //$ if wants_d_params > 0
        //$ if dq_staged
        else if (warp_index() <= CONSUMERS)
            add_dq(params.backward.forward, shared, warp_index() - 1);
        //$ elif dq_ordered
        else if (warp_index() <= ORDER_WARPS)
            keep_order(params.backward.forward, shared.dq_order[warp_index() - 1]);
        //$ end
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        KeysConsumer<DK, DV> consumer(params.backward, shared, warpgroup_index() - 1);
        if (consumer.index == 1) pass_turn(1); // consumer 0 takes the first turn //$ if pingpong_schedule
        while (consumer.take()) {
            //$ if apart and products_ahead
            if constexpr (DK)
                run_products_ahead(consumer);
            else
                run_scores_ahead(consumer);
            //$ elif products_ahead
            run_products_ahead(consumer);
            //$ elif products_within_step
            run_products_within_step(consumer);
            //$ else
            run_scores_ahead(consumer);
            //$ end
            consumer.store();
            consumer.release_item();
        }
        end_parts_of_dq(shared, consumer.index, consumer.parts_of_dq); //$ if dq_staged
        end_order(shared.dq_order[consumer.index]);                    //$ elif dq_ordered
        if (consumer.index == 0) take_turn(0); // the turn that remains //$ if pingpong_schedule
    }
    if constexpr (!DV)
        grid_dependency_wait();
}

//$ if apart
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dv(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<false, true>(params);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, false>(params);
}
//$ elif dq_added
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv_dq(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, true>(params);
}
//$ else
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, true>(params);
}
//$ end
