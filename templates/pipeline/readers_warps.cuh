// Warps read K and Q on their own when they recompute S: each warp releases them.
__device__ __forceinline__ void release_k(Barrier *empty) { release_keys_by_warp(empty); }
__device__ __forceinline__ void release_q(Barrier *empty) { release_by_warp(empty); }
