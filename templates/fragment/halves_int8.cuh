//$ include "target/any.cuh"

// Four integers as two pairs of halves; exact. A half of 1024 to 2047 has its integer in the lowest bits: here 1024 + (x + 128).
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    const unsigned positive = bytes ^ 0x80808080;
    pairs[0] = subtract_halves(permute_bytes(positive, 0x64, 0x4140), 0x64806480);
    pairs[1] = subtract_halves(permute_bytes(positive, 0x64, 0x4342), 0x64806480);
}
