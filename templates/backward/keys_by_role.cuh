//$ needs clears_loaded dq_ordered consumers stages d_o_stages key_stages step_m block_n part_keys panels panels_v block_threads shared_keys most_shares items_in_parts warps_of_item

// --- dK, dV and dQ: keys across, queries down. Each warpgroup has a role.

using PairsTile = Panels<(BLOCK_N + 63) / 64, STEP_M>; // P or dS (STEP_M queries, BLOCK_N keys)
constexpr int ITEMS_KEPT = 2; // a warpgroup may store an item when others are at the next one

//$ include "backward/dq_order.cuh" if dq_ordered

struct alignas(1024) SharedKeys {
    Panels<PANELS, PART_KEYS> k[KEY_STAGES][KEY_PARTS];
    Panels<PANELS_V, PART_KEYS> v[KEY_STAGES][KEY_PARTS];
    Panels<PANELS, STEP_M> q[STAGES];
    Panels<PANELS_V, STEP_M> d_o[D_O_STAGES];
    PairsTile weights, d_s[2]; // P and dS
    alignas(16) unsigned short transposed[WARPS_OF_ITEM][16][16]; // of each warp, what it stores of dK or dV: 16 keys, 16 columns
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
    Step step[STAGES];
    Item item[ITEMS_KEPT];
    Shares shares; //$ if most_shares > 0
    int parts_before[CONSUMERS]; // parts of an item that other blocks had stored //$ if items_in_parts
    int panels_again[CONSUMERS][ITEMS_KEPT]; // 1 if a warp of the consumer has stored a sum that is not finite
    Barrier keys_full[KEY_STAGES], keys_empty[KEY_STAGES], q_full[STAGES], q_empty[STAGES], d_o_full[D_O_STAGES], d_o_empty[D_O_STAGES];
    Barrier nan_full; //$ if clears_loaded
    Barrier weights_full, weights_empty, d_s_full[2], d_s_empty[2];
    DqOrder dq_order[ORDER_WARPS]; //$ if dq_ordered
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");

//$ include "backward/produce_queries.cuh"
//$ include "backward/role_of_weights.cuh"
//$ include "backward/role_of_gradients.cuh"
//$ include "backward/keep_order.cuh" if dq_ordered
//$ include "backward/role_of_dq.cuh"

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedKeys &shared) {
    for (int stage = 0; stage < KEY_STAGES; stage++) {
        barrier_init(&shared.keys_full[stage], 1);
        barrier_init(&shared.keys_empty[stage], CONSUMERS);
    }
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(&shared.q_full[stage], 1);
        barrier_init(&shared.q_empty[stage], 4 * CONSUMERS); // warps
    }
    for (int stage = 0; stage < D_O_STAGES; stage++) {
        barrier_init(&shared.d_o_full[stage], 1);
        barrier_init(&shared.d_o_empty[stage], CONSUMERS);
    }
    barrier_init(&shared.nan_full, 1); //$ if clears_loaded
    barrier_init(&shared.weights_full, 4);          // warps
    barrier_init(&shared.weights_empty, 1 + 4 + 1); // the second consumer's warps read P themselves
    for (int stage = 0; stage < 2; stage++) {
        barrier_init(&shared.d_s_full[stage], 4);  // warps
        barrier_init(&shared.d_s_empty[stage], 1); // the third consumer; the second one needs no barrier for its own dK
    }
    init_order(shared); //$ if dq_ordered
    barrier_init_fence();
    for (auto &of_consumer : shared.panels_again)
        for (int &again : of_consumer)
            again = 0;
}

//$ include "backward/run_role.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv_dq(const __grid_constant__ attention_backward_tma_params params) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    if (warp_index() == 1 && elect_one()) shared.shares = shares_of(params.backward.forward); //$ if most_shares > 0
    const ItemCounter counter = counter_of_items(params.backward.forward, 0);
    grid_dependency_wait();
    launch_dependents();
    __syncthreads();
    // 24 + 176 + 152 + 160 registers for four warpgroups: all that an SM has
    if (warpgroup_index() == 0) {
        registers_release<24>();
        //$ if clears_loaded
        const bool some_nan = *nan_found(params.backward.forward) == NAN_FOUND;
        if (warp_index() == 0 && some_nan)
            produce_queries<true, true>(params, shared, counter);
        else if (warp_index() == 0)
            produce_queries<true, false>(params, shared, counter);
        //$ else
        if (warp_index() == 0)
            produce_queries<true>(params, shared, counter);
        //$ end
        else if (warp_index() <= ORDER_WARPS) keep_order(params.backward.forward, shared.dq_order[warp_index() - 1]); //$ if dq_ordered
    } else if (warpgroup_index() == 1) {
        registers_acquire<176>();
        run_role<WeightsRole>(params.backward, shared);
    } else if (warpgroup_index() == 2) {
        registers_acquire<152>();
        run_role<GradientsRole>(params.backward, shared);
    } else {
        registers_acquire<160>();
        run_role<DqRole>(params.backward, shared);
        //$ if dq_ordered
        for (DqOrder &order : shared.dq_order)
            end_order(order);
        //$ end
    }
}
