// The gradients of attention on Hopper, warp-specialised. In each block one warp loads tiles by TMA, STAGES steps ahead of their use, and
// consumer warpgroups of 64 rows each multiply them by wgmma.
// Three more warps draw which pairs dropout keeps. //$ if dropout == 1
// Two more warps add dS to the gradients of the parameters that the score reads. //$ if wants_d_params > 0
//
//     dK, dV    a persistent block takes BLOCK_N keys at a time and loops over the queries of all heads that share them, STEP_M at a time
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//               The rows are keys, so P^T and dS^T are operands in the registers where they are computed.
//$ note The accumulators of dK and dV together may take up to 128 registers per thread. If they need more, there are two launches.
//$ let apart = head_dim + head_dim_v > 256
//$ let dq_added = deterministic == 0 and head_dim <= 128 and not apart
//$ if dq_added
//     dQ        dQ = dS K in the same loop, from dS of all consumers, through shared memory. It is added in fp32 to sums in the workspace,
//               which the last launch rounds.
//$ else
//     dQ        a block keeps BLOCK_M queries and loops over the keys, STEP_N at a time: S = Q K^T,  dP = dO V^T,  dQ += dS K
//$ end
//$ include "attention_backward_async.cuh"
//$ note Per-sequence lengths: a block works on one sequence.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ include "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ launch attention_dv grid min(batch * kv_heads * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if apart
//$ launch attention_dk grid min(batch * kv_heads * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if apart
//$ launch attention_dk_dv_dq grid min(batch * heads * ((len_kv + block_n - 1) / block_n) * max((len_q + step_m - 1) / step_m, 1), sm_count) block block_threads shared shared_keys dependent if most_shares > 0
//$ launch attention_dk_dv_dq grid min(batch * kv_heads * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if dq_added and most_shares == 0
//$ launch attention_dk_dv grid min(batch * kv_heads * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if not apart and not dq_added
//$ include "backward/round_dq_launch.cuh" if dq_added
//$ workspace 4 * heads * ((packed_rows / step_m + batch) * step_m) * (2 + dq_width) + 16 if layout == ragged else 4 * batch * heads * ((len_q + step_m - 1) / step_m * step_m) * (2 + dq_width) + 16 if most_shares == 0 else 4 * batch * heads * ((len_q + step_m - 1) / step_m * step_m) * (2 + dq_width) + 16 + 8 * most_shares * (block_n / 16) + 2 * min(most_shares, min(batch * heads * ((len_kv + block_n - 1) / block_n) * ((len_q + step_m - 1) / step_m), sm_count)) * block_n * (head_dim + head_dim_v) * 4
//$ tensor_map q rows step_m cols 64
//$ tensor_map k rows 64 cols 64
//$ tensor_map v rows 64 cols 64
//$ tensor_map d_o rows step_m cols 64
//$ include "params/attention_backward_tma.h"
//$ include "target/sm_90a_copies.cuh"
//$ include "target/sm_90.cuh"
//$ include "pipeline/ring.cuh"
//$ include "pipeline/release_by_thread.cuh"
//$ include "backward/unit_products.cuh"
//$ include "backward/items.cuh"
//$ include "backward/weigh_keys.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_keys.cuh"
//$ include "backward/store_rows.cuh"

// A tile of 16-bit elements is stored in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by TMA.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

// A tile of the side that the block loops over, as the producer found it.
struct Step {
    int first; // first query or key of the tile; negative after the last step
    unsigned whole; // one bit per consumer: set if all of its pairs are seen
    int late_sums; // dQ tile of the previous step //$ if dq_in_turn
    int sums, late_sums; // dQ tile of this step, or of the last one at the end of an item; dQ tile of two steps before //$ elif dq_added
    Where where; //$ if mask == custom_mask or score == custom_score
};

// --- dK and dV: keys down, queries across

struct alignas(1024) SharedKeys {
    Panels<PANELS, 64> k[KEY_STAGES][CONSUMERS];
    Panels<PANELS_V, 64> v[KEY_STAGES][CONSUMERS];
    Panels<PANELS, STEP_M> q[STAGES];
    Panels<PANELS_V, STEP_M> d_o[D_O_STAGES];
    Panels<STEP_M / 64, 64> d_s[2][CONSUMERS]; // dS^T, (keys, queries) //$ if dq_added
    float dq[CONSUMERS][DQ_COLUMNS / 8][128][4]; // dQ of 64 queries each, in the order of the sums //$ if dq_staged
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
    unsigned short kept[KEPT_STAGES][CONSUMERS][128][STEP_M / 32]; // one row per thread of a consumer //$ if dropout == 1
    alignas(16) BiasTile bias[STAGES]; //$ if bias_copied
    Step step[STAGES];
    Item item[KEY_STAGES];
    Shares shares; //$ if most_shares > 0
    int dq_sums[CONSUMERS]; // dQ tile that dq[] belongs to; negative after the last step //$ if dq_staged
    Barrier keys_full[KEY_STAGES], keys_empty[KEY_STAGES], q_full[STAGES], q_empty[STAGES], d_o_full[D_O_STAGES], d_o_empty[D_O_STAGES];
    Barrier kept_empty; //$ if dropout == 1 and kept_stages == 1
    Barrier d_s_full[2], d_s_empty[2]; //$ if dq_added
    Barrier dq_full[CONSUMERS], dq_empty[CONSUMERS]; //$ if dq_staged
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");

//$ include "backward/produce_queries.cuh"
//$ include "backward/draw_queries.cuh" if dropout == 1
//$ include "backward/copy_bias.cuh" if bias_copied
//$ include "backward/add_dq.cuh" if dq_staged
//$ include "backward/add_d_params.cuh" if wants_d_params > 0
//$ include "backward/consume_queries.cuh"
//$ include "backward/products_ahead.cuh" if products_ahead
//$ include "backward/scores_ahead.cuh" if apart or not products_ahead

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedKeys &shared) {
    for (int stage = 0; stage < KEY_STAGES; stage++) {
        barrier_init(&shared.keys_full[stage], 1);
        barrier_init(&shared.keys_empty[stage], CONSUMERS + DRAWERS);    //$ if dropout == 1
        barrier_init(&shared.keys_empty[stage], CONSUMERS + 1 + ADDERS); //$ elif bias_copied and wants_d_params > 0
        barrier_init(&shared.keys_empty[stage], CONSUMERS + 1);          //$ elif bias_copied
        barrier_init(&shared.keys_empty[stage], CONSUMERS + ADDERS);     //$ elif wants_d_params > 0
        barrier_init(&shared.keys_empty[stage], CONSUMERS);              //$ else
    }
    for (int stage = 0; stage < STAGES; stage++) {
        // arrivals: one for the bytes of Q, one for each lane that copies statistics
        barrier_init(&shared.q_full[stage], 1 + 32 + DRAWERS); // plus the warps that draw       //$ if dropout == 1
        barrier_init(&shared.q_full[stage], 1 + 32 + 32); // plus the lanes that copy a bias     //$ elif bias_copied
        barrier_init(&shared.q_full[stage], 1 + 32);                                             //$ else
        barrier_init(&shared.q_empty[stage], CONSUMERS);     //$ if dq_added
        barrier_init(&shared.q_empty[stage], 4 * CONSUMERS); // warps //$ else
    }
    barrier_init(&shared.kept_empty, 4 * CONSUMERS); // warps //$ if dropout == 1 and kept_stages == 1
    for (int stage = 0; stage < D_O_STAGES; stage++) {
        barrier_init(&shared.d_o_full[stage], 1);
        barrier_init(&shared.d_o_empty[stage], CONSUMERS);
    }
    //$ if dq_added
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
    barrier_init_fence();
}

// Computes dK, dV, or both for all items that the block takes.
template <bool DK, bool DV> __device__ __forceinline__ void go_over_queries(const attention_backward_tma_params &params) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    if (warp_index() == 1 && elect_one()) shared.shares = shares_of(params.backward.forward); //$ if most_shares > 0
    if constexpr (DV)
        grid_dependency_wait();
    else
        grid_dependency_begun(); // after the launch of dV, from which dK needs nothing
    launch_dependents();
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0)
            produce_queries(params, shared, item_counter(params.backward.forward, DV ? 0 : 1));
        else draw_queries(params.backward.forward, shared, warp_index() - 1); //$ if dropout == 1
        else if (warp_index() == 1) copy_bias(params.backward.forward, shared); //$ if bias_copied
        else if (warp_index() > 1) add_d_params(params.backward, shared, warp_index() - 2); //$ if wants_d_params > 0
        //$ if dq_staged
        else if (warp_index() <= CONSUMERS)
            add_dq(params.backward.forward, shared, warp_index() - 1);
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
            //$ else
            run_scores_ahead(consumer);
            //$ end
            consumer.store();
            consumer.release_item();
        }
        end_parts_of_dq(shared, consumer.index, consumer.shared_tiles()); //$ if dq_staged
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
//$ include "backward/dq_unit_launch.cuh" if not dq_added
