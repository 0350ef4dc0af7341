//$ include "target/any.cuh"

// Converts two e4m3 numbers, each in the upper byte of its half, to halves. Sign, exponent and mantissa move to their positions, which
// gives 2^-8 times the number, subnormal or not. A NaN has all bits but the sign set: adding one carries into the exponent.
__device__ __forceinline__ unsigned halves_of_spread(unsigned pair) {
    const unsigned sizes = pair & 0x7f007f00, nan = (sizes + 0x01000100) >> 1 & 0x40004000;
    return multiply_halves((pair & 0x80008000) | sizes >> 1 | nan, 0x5c005c00); // 2^8
}

// Converts four e4m3 numbers to two pairs of halves; exact.
__device__ __forceinline__ void halves_of(unsigned (&pairs)[2], unsigned bytes) {
    pairs[0] = halves_of_spread(permute_bytes(bytes, 0, 0x1404));
    pairs[1] = halves_of_spread(permute_bytes(bytes, 0, 0x3424));
}
