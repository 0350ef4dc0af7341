// Warps read K and Q by themselves, when they multiply S once more: each gives them back.
__device__ __forceinline__ void release_k(Barrier *empty) { release_keys_by_warp(empty); }
__device__ __forceinline__ void release_q(Barrier *empty) { release_by_warp(empty); }
