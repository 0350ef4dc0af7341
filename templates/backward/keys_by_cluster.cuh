//$ needs clears_loaded dq_ordered consumers stages d_o_stages step_m block_keys panels panels_v block_threads shared_keys
//$ include "target/sm_90a_cluster_copies.cuh"

// --- dK, dV and dQ: keys down, queries across. Two blocks of a cluster share an item, and have half of its keys each.

using PairsTile = Panels<STEP_M / 64, BLOCK_KEYS>; // P^T or dS^T (BLOCK_KEYS keys, STEP_M queries)
constexpr int PANELS_OF_DQ = PANELS / 2; // that a block has
//$ include "backward/dq_order.cuh" if dq_ordered

struct alignas(1024) SharedKeys {
    Panels<PANELS, BLOCK_KEYS> k;
    Panels<PANELS_V, BLOCK_KEYS> v;
    Panels<PANELS_OF_DQ, BLOCK_KEYS> k_other; // of the other block's keys, the columns of dQ that this block has
    Panels<PANELS, STEP_M> q[STAGES];
    Panels<PANELS_V, STEP_M> d_o[D_O_STAGES];
    PairsTile pairs;       // P^T, in the order of registers, then dS^T
    PairsTile pairs_other; // dS^T of the other block
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
    Step step[STAGES];
    Item item;
    Barrier item_full; // of the second block, which receives items from the first
    Barrier keys_full, keys_empty, q_full[STAGES], q_empty[STAGES], d_o_full[D_O_STAGES], d_o_empty[D_O_STAGES];
    Barrier nan_keys_full, nan_q_full[STAGES], nan_d_o_full[D_O_STAGES]; // tiles of which NaN is taken out //$ if clears_loaded
    DqOrder dq_order[ORDER_WARPS]; //$ if dq_ordered
    Barrier weights_full;            // P^T in `pairs`
    Barrier d_s_full, d_s_empty;     // dS^T in `pairs`
    Barrier other_full, other_empty; // dS^T in `pairs_other`: of this block; of the other block
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");

//$ include "backward/produce_in_cluster.cuh"
//$ include "backward/weights_in_cluster.cuh"
//$ include "backward/gradients_in_cluster.cuh"
//$ include "backward/keep_order.cuh" if dq_ordered
//$ include "backward/dq_in_cluster.cuh"

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedKeys &shared) {
    constexpr int READERS = 2 * 2 * 4; // warps of both blocks that read Q and dO: those that compute P and dS
    barrier_init(&shared.item_full, 1);
    barrier_init(&shared.keys_full, 1);
    barrier_init(&shared.keys_empty, 2 * CONSUMERS); // of both blocks, since they take the next item together
    barrier_init(&shared.nan_keys_full, 1); //$ if clears_loaded
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(&shared.q_full[stage], 1);
        barrier_init(&shared.nan_q_full[stage], 1); //$ if clears_loaded
        barrier_init(&shared.q_empty[stage], READERS + 4); // the third consumer's warps read the step
    }
    for (int stage = 0; stage < D_O_STAGES; stage++) {
        barrier_init(&shared.d_o_full[stage], 1);
        barrier_init(&shared.nan_d_o_full[stage], 1); //$ if clears_loaded
        barrier_init(&shared.d_o_empty[stage], READERS);
    }
    barrier_init(&shared.weights_full, 4); // warps
    barrier_init(&shared.d_s_full, 4);     // warps
    barrier_init(&shared.d_s_empty, 1);
    barrier_init(&shared.other_full, 1);
    barrier_init(&shared.other_empty, 1);
    init_order(shared); //$ if dq_ordered
    barrier_init_fence();
}

// Synchronises all threads of both blocks.
__device__ __forceinline__ void sync_blocks() {
    __syncwarp();
    cluster_arrive();
    cluster_wait();
}

//$ include "backward/run_role.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv_dq(const __grid_constant__ attention_backward_tma_params params) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    const ItemCounter counter = counter_of_items(params.backward.forward, 0);
    grid_dependency_wait();
    launch_dependents();
    sync_blocks(); // before one arrives at barriers of the other
    // 24 + 208 + 208 + 72 registers for four warpgroups: all that an SM has
    if (warpgroup_index() == 0) {
        registers_release<24>();
        //$ if clears_loaded
        const bool some_nan = *nan_found(params.backward.forward) == NAN_FOUND;
        if (warp_index() == 0 && some_nan)
            produce<true>(params, shared, counter);
        else if (warp_index() == 0)
            produce<false>(params, shared, counter);
        //$ else
        if (warp_index() == 0)
            produce(params, shared, counter);
        //$ end
        else if (warp_index() <= ORDER_WARPS) keep_order(params.backward.forward, shared.dq_order[warp_index() - 1]); //$ if dq_ordered
    } else if (warpgroup_index() == 1) {
        registers_acquire<208>();
        run_role<WeightsRole>(params.backward, shared);
    } else if (warpgroup_index() == 2) {
        registers_acquire<208>();
        run_role<GradientsRole>(params.backward, shared);
    } else {
        registers_release<72>();
        run_role<DqRole>(params.backward, shared);
        //$ if dq_ordered
        for (DqOrder &order : shared.dq_order)
            end_order(order);
        //$ end
    }
    sync_blocks(); // no other block accesses the shared memory of this one any more
}
