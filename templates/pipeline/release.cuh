// Consumers release a stage to its producer: one warp for the warpgroup where only wgmma reads the stage, each warp where warps
// may read it on their own.
__device__ __forceinline__ void release_by_warp(Barrier *empty) {
    if (elect_one())
        barrier_arrive(empty);
}
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
