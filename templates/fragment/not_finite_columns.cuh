//$ needs row_groups key_groups o_steps bfloat16
//$ include "fragment/softmax_columns.cuh"

// Elements of V that are not finite, where some row does not see some key.

// Converts an element of P or V, in the format of the products, to float.
__device__ __forceinline__ float factor_to_float(unsigned bits) {
    return bfloat16_to_float(static_cast<unsigned short>(bits)); //$ if bfloat16
    return half_to_float(static_cast<unsigned short>(bits));     //$ else
}

// Returns a mask for two elements: all bits are set for an element that is not finite.
__device__ __forceinline__ unsigned not_finite(unsigned pair) {
    //$ if bfloat16
    unsigned signs = ((pair & 0x7fff7fff) + 0x00800080) & 0x80008000; // an exponent of all ones carries into the sign bit
    //$ else
    unsigned signs = ((pair & 0x7fff7fff) + 0x04000400) & 0x80008000;
    //$ end
    return (signs >> 15) * 0xffff;
}

// O^T += V^T P^T of the elements of V that are not finite, only for the rows that see them: P of a key that a row does not see is 0,
// but 0 * NaN is NaN. `odd`: V^T (16, 16) as operand a, with zeros in place of all finite elements.
__device__ __forceinline__ void add_not_finite(float (&o)[ROW_GROUPS][O_STEPS][4], int step, const unsigned (&odd)[4],
                                               const Weights &weights, int group) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++) {
        const unsigned pairs[2] = {transpose_matrix(weights.pairs[n][group][0]), transpose_matrix(weights.pairs[n][group][1])};
#pragma unroll 1
        for (int key = 0; key < 16; key++) {
            const int column = lane / 4 * 4 + key % 8 / 2, row = key % 8 * 4 + lane % 4; // the lanes that hold its V and P
            const unsigned pair = __shfl_sync(0xffffffffu, key < 8 ? pairs[0] : pairs[1], row);
            const unsigned seen =
                __shfl_sync(0xffffffffu, weights.seen, row) >> ((n * KEY_GROUPS + group) * 4 + key / 8 * 2);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned values = __shfl_sync(0xffffffffu, key < 8 ? odd[half] : odd[half + 2], column);
                const unsigned value = key % 2 ? values >> 16 : values & 0xffff;
#pragma unroll
                for (int j = 0; j < 2; j++)
                    o[n][step][2 * half + j] =
                        fmaf(factor_to_float(j ? pair >> 16 : pair), factor_to_float(seen >> j & 1 ? value : 0), o[n][step][2 * half + j]);
            }
        }
    }
}
