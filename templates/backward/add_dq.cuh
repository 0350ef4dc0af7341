//$ needs head_dim dq_ordered dq_columns block_m
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh" if dq_ordered

// One warp per consumer adds the consumer's part of dQ to the sums, step by step, as soon as the part is in shared memory.
// The result depends on the order of additions. So a warp waits until dQ of all keys before its own has been added. Blocks take //$ if dq_ordered
// the tiles of a head in the order of their keys, so it waits only for blocks that have begun. //$ if dq_ordered
__device__ __forceinline__ void add_dq(const attention_params &p, SharedKeys &shared, int consumer) {
    const bool elected = elect_one();
#pragma unroll 1
    for (Ring<1> ring = {0};; ring.count++) {
        barrier_wait(&shared.dq_full[consumer], ring.parity());
        const DqPart part = shared.dq_part[consumer];
        __syncwarp();
        if (part.tile < 0)
            break;
        if (elected) {
            await_count(key_tiles_added(p, part.tile + consumer), part.before); //$ if dq_ordered
            //$ if block_m == 128
            tma_add(dq_sums(p, part.tile + consumer), shared.dq[consumer], HEAD_DIM * 64 * 4);
            //$ else
            tma_add(dq_sums(p, part.tile) + consumer * (DQ_COLUMNS * 64), shared.dq[consumer],
                    min(DQ_COLUMNS, HEAD_DIM - consumer * DQ_COLUMNS) * 64 * 4);
            //$ end
            tma_store_commit();
            tma_store_wait_read();
            barrier_arrive(&shared.dq_empty[consumer]);
            //$ if dq_ordered
            tma_store_wait();
            atomic_add_acq_rel(key_tiles_added(p, part.tile + consumer), 1);
            //$ end
        }
    }
}
