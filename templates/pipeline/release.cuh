// Stages are given back to their producers when all of a warpgroup's products have read them.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
