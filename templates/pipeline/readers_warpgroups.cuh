// Only wgmma reads K and Q: the warpgroup releases them with one arrival.
__device__ __forceinline__ void release_k(Barrier *empty) { release_keys(empty); }
__device__ __forceinline__ void release_q(Barrier *empty) { release(empty); }
