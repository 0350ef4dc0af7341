//$ needs thread_m thread_n
//$ include "fragment/simt_place.cuh"

// S = scale S
__device__ __forceinline__ void apply_score(const attention_params &p, const QTile &, int, Place, float (&s)[THREAD_M][THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            s[i][j] *= p.scale;
}
