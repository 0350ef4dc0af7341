// Consumers release a stage to its producer, one thread for the warpgroup, when the wgmmas of the warpgroup have read it. Electing a
// lane of the first warp instead takes a shuffle, whose result comes late while products are under way.
__device__ __forceinline__ void release(Barrier *empty) {
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty);
}
// The same of a stage that threads also read themselves: each warp releases it when its lanes have read it.
__device__ __forceinline__ void release_by_warps(Barrier *empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        barrier_arrive(empty);
}
