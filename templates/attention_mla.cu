// Attention with V in K on Hopper: the absorbed form of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
// All query heads share one K/V head whose rows are wide, so the tensor cores are as busy as the memory.
//
//     producer, a thread       loads each K/V tile once, by TMA: V is its first columns. Each panel of 64 columns has its own
//                              barrier, so S begins when the first panel arrives; each half of V is reloaded as soon as its
//                              warpgroup has read it
//     consumers, 2 warpgroups  64 rows of one query's heads. Each warpgroup holds half of the columns of O, because the registers
//                              of one cannot hold them all, and computes S and P of every other tile. It passes P to the other
//                              warpgroup through the last columns of the K/V tile in shared memory, which only S needs.
//
//     warpgroup 0    S of a   softmax              O += P V of a        O += P V of b   S of the next a
//     warpgroup 1    S of b                        O += P V of a, softmax beside it     O += P V of b   S of the next b
//
//     m' = max(m, row maxima of S)    P = e^(S - m')      (64, 64)
//     l = e^(m - m') l + row sums     O = e^(m - m') O + P V  (64, HEAD_DIM_V), tile after tile in both warpgroups
//
// Blocks take equally long runs of K/V tiles; a second launch combines the parts of those Q tiles that several blocks worked on.
//$ include "attention_mla.cuh"
//$ include "params/attention_tma.h"
//$ include "sequence/element.cuh"
//$ include "target/sm_90.cuh"
//$ include "target/sm_90a.cuh"
//$ include "target/wgmma_panel_ss_nt.cuh"
//$ include "target/wgmma_rs_nn.cuh"
//$ include "target/wgmma_ss_nn.cuh"
//$ include "pipeline/ring.cuh"
//$ include "pipeline/release.cuh"

//$ note Per-sequence lengths: a Q tile belongs to one sequence.
//$ include "sequence/$layout.cuh"

//$ note The rows of a Q tile, and the K/V tiles of each block.
//$ include "work/row_of_query.cuh"
//$ if batch_invariant == 1
//$ include "work/runs_of_chunks.cuh"
//$ launch attention_mla grid (heads / kv_heads + block_m - 1) / block_m * len_q * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys) block block_threads shared shared_bytes dependent
//$ else
//$ launch attention_mla grid sm_count block block_threads shared shared_bytes dependent
//$ if layout == dense
//$ include "work/runs_equal.cuh"
//$ else
//$ include "work/workers_blocks.cuh"
//$ include "work/runs_of_lengths.cuh"
//$ end
//$ end
//$ include "walk/keys_of_query.cuh"
//$ tensor_map k rows share cols 64

// A tile of 16-bit elements is stored in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by TMA.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

struct alignas(1024) Shared {
    Panels<PANELS, BLOCK_M> q;                      // at the end, O before it is stored
    Panels<PANELS, BLOCK_N> k[STAGES];              // V is the first panels; the last one becomes P
    float max[2][BLOCK_M], sum[2][BLOCK_M];         // of each warpgroup: m after its last tile, its share of l
    Barrier full[STAGES][PANELS], empty[STAGES][2]; // a panel has arrived; a warpgroup no longer needs the tile
};
static_assert((sizeof(Shared) + 1023) / 1024 * 1024 == SHARED_BYTES, "as in the launch directive");

//$ include "load/paged_keys_of_query.cuh" if page_size > 0 else "load/keys_of_query.cuh"
//$ include "load/queries_in_panels.cuh"
//$ include "fragment/weight_of_score.cuh"

//$ note The output: O, or partial results that a second launch combines.
//$ include "store/columns.cuh"
//$ include "store/parts_of_chunks.cuh" if batch_invariant == 1 else "store/parts_of_runs.cuh"
//$ include "pipeline/half_of_columns.cuh"
//$ include "store/half_of_columns.cuh"
//$ include "store/shares.cuh"
//$ include "store/shares_of_chunks.cuh" if batch_invariant == 1 else "store/shares_of_runs.cuh"
//$ include "store/combine_launch.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) attention_mla(const __grid_constant__ attention_tma_params given) {
    Shared &shared = *dynamic_shared<Shared>();
    const attention_params &all = given.attention;
    //$ if layout != dense
    grid_dependency_wait(); // the plan reads lengths from memory
    launch_dependents();
    //$ end
    const Plan plan = plan_of(all, gridDim.x);
    if (blockIdx.x >= plan.workers) //$ if layout != dense
        return;                     //$ if layout != dense
    const Start start = start_of(all, plan, blockIdx.x);
    if (warp_index() == 0 && elect_one()) {
        tma_prefetch(&given.k_map);
        for (int stage = 0; stage < STAGES; stage++) {
            for (int panel = 0; panel < PANELS; panel++)
                barrier_init(&shared.full[stage][panel], 1);
            barrier_init(&shared.empty[stage][0], 1);
            barrier_init(&shared.empty[stage][1], 1);
        }
        barrier_init_fence();
    }
    //$ if layout == dense
    grid_dependency_wait();
    launch_dependents();
    if (blockIdx.x >= plan.workers)
        return;
    //$ end
    //$ if batch_invariant == 1
    if (start.run.first >= start.run.end)
        return;
    //$ end
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0 && elect_one())
            produce_keys(given, shared, start);
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        Consumer consumer(shared, warpgroup_index() - 1, exponent_factor(all));
        for (Tile tile = start.tile;; tile = next_tile(all, tile)) {
            const attention_params &p = sequence_of(all, tile.batch);
            consumer.multiply(p, walk_of_block(p, start.run, tile), tile);
            store_half(consumer, p, start.run, tile);
            if (tile.end >= start.run.end)
                break;
        }
    }
}
