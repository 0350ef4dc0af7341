//$ needs block_keys block_n dq_ordered bfloat16
//$ include "backward/steps_in_cluster.cuh"
//$ include "backward/add_or_store.cuh" if dq_ordered else "target/sm_90_sums.cuh"

// The third warpgroup: this block's columns of dQ (STEP_M queries, d) = dS K, over the keys of both blocks, 64 columns at a time, which
// it adds to the sums.
struct DqRole : ClusterSteps {
    float dq[32]; // dQ (STEP_M queries, 64 columns)

    using ClusterSteps::ClusterSteps;

    // Issues 64 columns of dQ.
    __device__ __forceinline__ void multiply(int panel) {
        wgmma_fence();
        add<false>(shared.pairs, shared.k[PANELS_OF_DQ * cluster_rank() + panel]);
        add<true>(shared.pairs_other, shared.k_other[panel]);
        wgmma_commit();
    }
    // dQ (STEP_M queries, 64) = dS k, plus dQ if KEEP.
    template <bool KEEP> __device__ __forceinline__ void add(PairsTile &d_s, unsigned short (&k)[BLOCK_KEYS][64]) {
        const unsigned long long a = matrix_descriptor(d_s, 0), b = matrix_descriptor(k, 0);
        wgmma_ss<64, KEEP, true, false, BFLOAT16>(dq, a, b);
#pragma unroll
        for (int i = 1; i < BLOCK_KEYS / 16; i++)
            wgmma_ss<64, true, true, false, BFLOAT16>(dq, a + i * ROWS_OF_STEP, b + i * ROWS_OF_STEP);
    }
    // Adds these columns to the sums of the step's queries, or stores them if they are the first. Call after a wait. //$ if dq_ordered
    // Adds these columns to the sums of the step's queries. Call after a wait.                                      //$ else
    __device__ __forceinline__ void add_to_sums(int sums, int panel) {
        wgmma_settle(dq);
        float *const to = dq_sums(all, sums) + (PANELS_OF_DQ * cluster_rank() + panel) * 64 * 64 +
                          opaque(static_cast<int>(threadIdx.x) % 128) * 4;
#pragma unroll
        for (int i = 0; i < 8; i++)
            add_or_store(to + i * 512, item().key0 == 0, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]); //$ if dq_ordered
            add_to_memory(to + i * 512, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);                  //$ else
    }

    // Nothing is in flight at the back edge of the loop.
    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (; await_queries(0); ring.count++) {
            const int sums = step().sums;
            ask_for_order(order_of_step(shared, tile()), {sums, item().key0 / BLOCK_N}); //$ if dq_ordered
            release_by_warps(&shared.q_empty[ring.stage()]);
            barrier_wait(&shared.d_s_full, tile() & 1);
            barrier_wait(&shared.other_full, tile() & 1);
#pragma unroll
            for (int panel = 0; panel < PANELS_OF_DQ; panel++) {
                wgmma_settle(dq);
                multiply(panel);
                wgmma_wait<0>();
                if (panel == PANELS_OF_DQ - 1) {
                    release(&shared.d_s_empty);
                    if (threadIdx.x % 128 == 0)
                        barrier_arrive_at(&shared.other_empty, cluster_rank() ^ 1);
                }
                if (panel == 0) await_order(shared, tile()); //$ if dq_ordered
                add_to_sums(sums, panel);
            }
            release_by_warps(&order_of_step(shared, tile()).added); //$ if dq_ordered
        }
        release_by_warps(&shared.q_empty[ring.stage()]);
        ring.count++;
    }
    __device__ __forceinline__ void finish_item() { release_keys(); }
};
