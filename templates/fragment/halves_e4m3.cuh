//$ include "target/sm_89.cuh"

// Converts four e4m3 numbers to two pairs of halves; exact.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    pairs[0] = halves_of_e4m3(bytes);
    pairs[1] = halves_of_e4m3(bytes >> 16);
}
