//$ needs q_steps
//$ include "target/sm_80.cuh"

// Converts a row of Q from bf16 to fp16, divided by the power of two that leaves its largest element between 2^14
// and 2^15. So elements down to 2^-28 of the largest are exact, and smaller ones are off by at most 2^-39 of it.
// Returns the power. To be called by the four lanes that hold the row.
__device__ __forceinline__ float to_halves(unsigned (&halves)[Q_STEPS][2], const unsigned (&row)[Q_STEPS][2]) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < 2 * Q_STEPS; i++) {
        const unsigned sizes = row[i / 2][i % 2] & 0x7fff7fff;
        most = max(most, max(sizes & 0xffff, sizes >> 16));
    }
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
        most = max(most, __shfl_xor_sync(0xffffffffu, most, lanes));
    const int exponent = max(static_cast<int>(most >> 7), 27); // both powers are normal numbers
    const float inverse = __int_as_float((268 - exponent) << 23), power = __int_as_float((exponent - 14) << 23);
#pragma unroll
    for (int i = 0; i < 2 * Q_STEPS; i++) {
        const unsigned pair = row[i / 2][i % 2];
        halves[i / 2][i % 2] = pack<false>(bfloat16_to_float(static_cast<unsigned short>(pair)) * inverse,
                                           bfloat16_to_float(static_cast<unsigned short>(pair >> 16)) * inverse);
    }
    return power;
}
