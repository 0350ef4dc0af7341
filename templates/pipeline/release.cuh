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
