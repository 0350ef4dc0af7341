// Only products of a warpgroup read K and Q: it gives them back as one.
__device__ __forceinline__ void release_k(Barrier *empty) { release_keys(empty); }
__device__ __forceinline__ void release_q(Barrier *empty) { release(empty); }
