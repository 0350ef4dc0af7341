// Releases a stage to its producer when the wgmmas of the warpgroup have read it. One warp arrives for the warpgroup.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
