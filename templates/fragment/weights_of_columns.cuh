//$ needs row_groups key_groups mask bfloat16
//$ include "fragment/softmax_columns.cuh"

// Returns P^T of a K/V tile, rounded to 16 bits.
__device__ __forceinline__ Weights weights_of(const Scores &s) {
    Weights weights;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                weights.pairs[n][t][half] =
                    transpose_matrix(pack<BFLOAT16>(s.s[n][t][2 * half], s.s[n][t][2 * half + 1]));
    weights.seen = s.seen; //$ if mask != none
    return weights;
}
