//$ needs row_groups key_groups o_steps mask
//$ include "fragment/softmax_columns.cuh"
//$ include "fragment/scale_output.cuh"

// V with a scale for each key, which multiplies P: O += (P scale / unit) V, and O is in units of a power of two. No product is more
// than 2, and keys with the largest scale lose no small P to the narrow range of halves.
struct ValueUnit {
    float unit; // at least half of the largest scale so far, unless that is larger than 2^127 or not finite

    __device__ __forceinline__ void begin() { unit = 0x1p-100f; }

    // Returns P^T of a K/V tile, times the scales of its keys, rounded to halves.
    __device__ __forceinline__ Weights weights_of(const Scores &s, const float *scales, float (&o)[ROW_GROUPS][O_STEPS][4]) {
        const float *scale_of_key = scales + threadIdx.x % 32 / 4;
        float scale[KEY_GROUPS][2], most = 0;
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                scale[t][half] = scale_of_key[16 * t + 8 * half];
                most = fmaxf(most, fabsf(scale[t][half]));
            }
        if (__any_sync(0xffffffffu, most >= 2 * unit))
            raise(most, o);
        const float inverse = __int_as_float((254 << 23) - __float_as_int(unit));
        Weights weights;
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float factor = scale[t][half] * inverse;
#pragma unroll
                for (int n = 0; n < ROW_GROUPS; n++) {
                    float p[2];
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        //$ if mask != none
                        const bool seen = s.seen >> ((n * KEY_GROUPS + t) * 4 + 2 * half + j) & 1; // or 0 * NaN would be NaN
                        p[j] = seen ? s.s[n][t][2 * half + j] * factor : 0;
                        //$ else
                        p[j] = s.s[n][t][2 * half + j] * factor;
                        //$ end
                    }
                    weights.pairs[n][t][half] = transpose_matrix(pack<false>(p[0], p[1]));
                }
            }
        weights.seen = s.seen; //$ if mask != none
        return weights;
    }
    // Raises the unit to the power of two not above the largest `most` of the lanes, but at most 2^126.
    __device__ __forceinline__ void raise(float most, float (&o)[ROW_GROUPS][O_STEPS][4]) {
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
        const float raised = __int_as_float(__float_as_int(fminf(most, 0x1p126f)) & 0x7f800000);
        scale_output(o, unit / raised);
        unit = raised;
    }
    // Multiplies O by the unit.
    __device__ __forceinline__ void end(float (&o)[ROW_GROUPS][O_STEPS][4]) const { scale_output(o, unit); }
};
