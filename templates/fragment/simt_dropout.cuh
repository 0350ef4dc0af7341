//$ needs lanes_m lanes_n thread_m thread_n
//$ include "fragment/dropout.cuh"
//$ include "fragment/simt_place.cuh"

// P = 0 where it is dropped.
__device__ __forceinline__ void drop_weights(const Dropout &dropout, int row0, int key0, Place at, float (&s)[THREAD_M][THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            if (!keeps_pair(dropout, row0 + at.row + LANES_M * i, key0 + at.lane + LANES_N * j))
                s[i][j] = 0;
}
