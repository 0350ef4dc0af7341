//$ needs lanes_m lanes_n thread_m thread_n thread_v chunks unroll
//$ include "fragment/simt_place.cuh"
//$ include "fragment/outer_product.cuh"

// The two matrix products by FMA. Both are sums of outer products of the values that a thread reads from shared memory, one chunk of
// four floats at a time.

// S = Q K^T
__device__ __forceinline__ void multiply_scores(const Shared &tile, Place at, float (&s)[THREAD_M][THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            s[i][j] = 0;
#pragma unroll UNROLL
    for (int d = 0; d < CHUNKS; d++) {
        float4 q[THREAD_M];
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            q[i] = tile.q[at.row + LANES_M * i][d];
#pragma unroll
        for (int j = 0; j < THREAD_N; j++) {
            const float4 k = tile.k[at.lane + LANES_N * j][d];
#pragma unroll
            for (int e = 0; e < 4; e++)
                add_column<LANES_M>(s, j, q, e, element(k, e));
        }
    }
}

// The products of O += P V: add(column, p, e, v, key) adds p[i].e v to that column of row i of O. P passes through shared memory,
// LANES_N chunks of four keys at a time; the four keys lie LANES_N apart, as a thread holds them.
template <typename Add>
__device__ __forceinline__ void multiply_output(Shared &tile, Place at, const float (&p)[THREAD_M][THREAD_N], const Add &add) {
#pragma unroll
    for (int j = 0; j < THREAD_N; j += 4) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            tile.p[at.row + LANES_M * i][at.lane] = make_float4(p[i][j], p[i][j + 1], p[i][j + 2], p[i][j + 3]);
        __syncwarp();
#pragma unroll 2
        for (int n = 0; n < LANES_N; n++) {
            float4 weight[THREAD_M];
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
                weight[i] = tile.p[at.row + LANES_M * i][n];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = (j + e) * LANES_N + n;
#pragma unroll
                for (int c = 0; c < THREAD_V; c++) {
                    const float4 v = tile.v[key][at.lane + LANES_N * c];
#pragma unroll
                    for (int x = 0; x < 4; x++)
                        add(4 * c + x, weight, e, element(v, x), key);
                }
            }
        }
    }
}

// O += P V for all rows and keys.
__device__ __forceinline__ void multiply_output(Shared &tile, Place at, const float (&p)[THREAD_M][THREAD_N],
                                                float (&o)[THREAD_M][4 * THREAD_V]) {
    multiply_output(tile, at, p, [&](int column, const float4 (&weight)[THREAD_M], int e, float v, int) {
        add_column<LANES_M>(o, column, weight, e, v);
    });
}
