// Consumers release a stage to its producer, one warp for the warpgroup, when the wgmmas of the warpgroup have read it.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
