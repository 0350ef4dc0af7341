//$ needs target
//$ require target == sm_90a
//$ include "target/sm_90a_async.cuh"

// Blocks of a cluster run concurrently and access each other's shared memory, where the same variable is at the same offset.

#ifndef ATTILE_HOST // the host device has its own

__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster arrive and wait until all have arrived: earlier writes of each are then visible to all. Not
// `aligned`: the lanes of a producer's warp come one by one.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Arrives at the barrier of the block with this rank. It signals that wgmma and copies have finished with shared memory, and
// does not publish ordinary stores: that would take a release in the cluster, which costs ten times as much.
__device__ __forceinline__ void barrier_arrive_at(Barrier *barrier, int rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
                 "r"(rank)
                 : "memory");
}

// tma_load into every block whose rank has its bit set in `mask`; the bytes count on each block's own barrier.
__device__ __forceinline__ void tma_load_multicast(void *shared, const tensor_map *map, Barrier *barrier, unsigned mask,
                                                   int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(shared)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch),
                 "h"(static_cast<unsigned short>(mask))
                 : "memory");
}

#endif
