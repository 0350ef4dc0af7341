//$ needs head_dim
//$ include "backward/row_statistics_launch.cuh"

// One warp per consumer adds the consumer's part of dQ to the sums, step by step, as soon as the part is in shared memory.
__device__ __forceinline__ void add_dq(const attention_params &p, SharedKeys &shared, int consumer) {
    const bool elected = elect_one();
#pragma unroll 1
    for (Ring<1> ring = {0};; ring.count++) {
        barrier_wait(&shared.dq_full[consumer], ring.parity());
        const int sums = shared.dq_sums[consumer]; // dQ tile of the step's first 64 queries
        __syncwarp();
        if (sums < 0)
            break;
        if (elected) {
            tma_add(dq_sums(p, sums + consumer), shared.dq[consumer], HEAD_DIM * 64 * 4);
            tma_store_commit();
            tma_store_wait_read();
            barrier_arrive(&shared.dq_empty[consumer]);
        }
    }
}
