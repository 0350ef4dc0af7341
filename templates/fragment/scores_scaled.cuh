//$ needs row_groups key_groups kv_scale row_units
//$ include "fragment/softmax_columns.cuh"

// Multiplies S^T by the units of its rows and the scales of its keys.
__device__ __forceinline__ void scale_scores(Scores &s, const Queries &q, const KeyStage &keys) {
    const float *scale_of_key = keys.k_scale + threadIdx.x % 32 / 4; //$ if kv_scale == token
#pragma unroll
    for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float scale = scale_of_key[16 * t + 8 * half]; //$ if kv_scale == token
#pragma unroll
            for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    s.s[n][t][2 * half + j] *= scale * q.unit[n][j]; //$ if kv_scale == token and row_units
                    s.s[n][t][2 * half + j] *= scale;                //$ elif kv_scale == token
                    s.s[n][t][2 * half + j] *= q.unit[n][j];         //$ else
        }
}
