//$ include "target/any.cuh"

// Four e5m2 numbers as two pairs of halves, whose upper bytes they are.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    pairs[0] = permute_bytes(bytes, 0, 0x1404);
    pairs[1] = permute_bytes(bytes, 0, 0x3424);
}
