//$ include "target/any.cuh"

// Two e4m3 numbers, each in the upper byte of its half, as halves. Sign, exponent and mantissa go to their places, which gives 2^-8 of
// the number, subnormal or not. NaN has all bits set but the sign: one more carries into the exponent.
__device__ __forceinline__ unsigned halves_of_spread(unsigned pair) {
    const unsigned sizes = pair & 0x7f007f00, nan = (sizes + 0x01000100) >> 1 & 0x40004000;
    return multiply_halves((pair & 0x80008000) | sizes >> 1 | nan, 0x5c005c00); // 2^8
}

// Four e4m3 numbers as two pairs of halves; exact.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    pairs[0] = halves_of_spread(permute_bytes(bytes, 0, 0x1404));
    pairs[1] = halves_of_spread(permute_bytes(bytes, 0, 0x3424));
}
