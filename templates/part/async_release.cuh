// Stages are given back to their producers: by one warp when all of a warpgroup's products have read them, by each warp when
// it may have read them itself.

__device__ __forceinline__ void release_by_warp(Barrier *empty) {
    if (elect_one())
        barrier_arrive(empty);
}
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
//$ if cluster > 1
// ... of those that all blocks of the cluster fill.
__device__ __forceinline__ void release_share_by_warp(Barrier *empty) {
    if (threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
__device__ __forceinline__ void release_share(Barrier *empty) {
    if (warp_index() % 4 == 0 && threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
//$ else
__device__ __forceinline__ void release_share_by_warp(Barrier *empty) { release_by_warp(empty); }
__device__ __forceinline__ void release_share(Barrier *empty) { release(empty); }
//$ end
//$ if rescale == from_sum
__device__ __forceinline__ void release_keys(Barrier *empty) { release_share_by_warp(empty); }
//$ else
__device__ __forceinline__ void release_keys(Barrier *empty) { release_share(empty); }
//$ end
