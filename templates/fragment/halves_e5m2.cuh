//$ include "target/any.cuh"

// Converts four e5m2 numbers to two pairs of halves: each number is the upper byte of its half.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    pairs[0] = permute_bytes(bytes, 0, 0x1404);
    pairs[1] = permute_bytes(bytes, 0, 0x3424);
}
