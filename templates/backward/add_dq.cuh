//$ needs head_dim dq_ordered dq_columns block_m step_m consumers
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh" if dq_ordered
//$ if dq_ordered

// Adds floats in shared memory to sums, or stores them if they are the first.
__device__ __forceinline__ void tma_add_or_store(float *to, const void *from, int bytes, bool first) {
    if (first)
        tma_store_floats(to, from, bytes);
    else
        tma_add(to, from, bytes);
}
//$ end

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
            //$ if dq_ordered
            int *const added = key_tiles_added(p, 64ll * part.tile + STEP_M / CONSUMERS * consumer);
            await_count(added, part.before);
            //$ end
            //$ if block_m == 128
            tma_add_or_store(dq_sums(p, part.tile + consumer), shared.dq[consumer], HEAD_DIM * 64 * 4, part.before == 0); //$ if dq_ordered
            tma_add(dq_sums(p, part.tile + consumer), shared.dq[consumer], HEAD_DIM * 64 * 4);                            //$ else
            //$ elif head_dim <= dq_columns
            if (consumer == 0) // has all columns
                tma_add_or_store(dq_sums(p, part.tile), shared.dq[0], HEAD_DIM * 64 * 4, part.before == 0); //$ if dq_ordered
                tma_add(dq_sums(p, part.tile), shared.dq[0], HEAD_DIM * 64 * 4);                            //$ else
            //$ else
            float *const sums = dq_sums(p, part.tile) + consumer * (DQ_COLUMNS * 64);
            const int bytes = min(DQ_COLUMNS, HEAD_DIM - consumer * DQ_COLUMNS) * 64 * 4;
            tma_add_or_store(sums, shared.dq[consumer], bytes, part.before == 0); //$ if dq_ordered
            tma_add(sums, shared.dq[consumer], bytes);                            //$ else
            //$ end
            tma_store_commit();
            tma_store_wait_read();
            barrier_arrive(&shared.dq_empty[consumer]);
            //$ if dq_ordered
            tma_store_wait();
            add_release(added, 1); // without release, a later block's addition was seen to come first
            //$ end
        }
    }
}
