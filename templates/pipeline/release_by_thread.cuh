// Releases a stage to its producer when the wgmmas of the warpgroup have read it. One thread arrives for the warpgroup. Electing a lane
// of the first warp instead would take a shuffle, whose result comes late while products are in flight.
__device__ __forceinline__ void release(Barrier *empty) {
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty);
}
// The same for a stage that threads also read themselves: each warp releases it when its lanes have read it.
__device__ __forceinline__ void release_by_warps(Barrier *empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        barrier_arrive(empty);
}
