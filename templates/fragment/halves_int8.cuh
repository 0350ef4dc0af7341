//$ include "target/any.cuh"

// Converts four integers to two pairs of halves; exact. The lowest bits of a half from 1024 to 2047 are its offset from 1024: here x + 128.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    const unsigned positive = bytes ^ 0x80808080;
    pairs[0] = subtract_halves(permute_bytes(positive, 0x64, 0x4140), 0x64806480);
    pairs[1] = subtract_halves(permute_bytes(positive, 0x64, 0x4342), 0x64806480);
}
