//$ needs dropout warp_queries
//$ include "backward/load_statistics.cuh"
//$ include "backward/pairs.cuh"
//$ include "backward/weigh_tile.cuh"
//$ include "backward/kept_pairs.cuh" if dropout == 1

// S^T and dP^T of a warp's 32 keys and WARP_QUERIES queries -> P^T and dS^T, in the accumulator layout of mma: element
// 8 j + 4 h + 2 r + e of a thread is in row lane / 4 + 8 r, a key, and in column 16 j + 8 h + lane % 4 * 2 + e, a query.

// P = e^(scale s - LSE)
__device__ __forceinline__ void weigh_scores(float (&s)[2][WARP_QUERIES / 2], float scale, SharedAddress lse2) {
#pragma unroll
    for (int j = 0; j < WARP_QUERIES / 16; j++) {
        float lse2_of[4];
        load_statistics(lse2_of, lse2 + 64 * j);
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                s[t][8 * j + i] = exp2_approx(fmaf(s[t][8 * j + i], scale * LOG2_E, -lse2_of[i / 4 * 2 + i % 2]));
    }
}

// dS = P (dP - D)
__device__ __forceinline__ void weigh_gradients(float (&d_weight)[2][WARP_QUERIES / 2], const float (&weight)[2][WARP_QUERIES / 2],
                                                SharedAddress dot) {
#pragma unroll
    for (int j = 0; j < WARP_QUERIES / 16; j++) {
        float dot_of[4];
        load_statistics(dot_of, dot + 64 * j);
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                d_weight[t][8 * j + i] = weight[t][8 * j + i] * (d_weight[t][8 * j + i] - dot_of[i / 4 * 2 + i % 2]);
    }
}

// Sets both to 0 for pairs that are not seen, whatever they were.
__device__ __forceinline__ void hide_pairs(float (&weight)[2][WARP_QUERIES / 2], float (&d_score)[2][WARP_QUERIES / 2],
                                           const attention_params &p, const Where &at, int query0, int key0) {
    const int lane = opaque(static_cast<int>(threadIdx.x)) % 32;
#pragma unroll
    for (int j = 0; j < WARP_QUERIES / 16; j++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const bool seen = is_pair_seen(p, at, query0 + 16 * j + i / 4 * 8 + lane % 4 * 2 + i % 2,
                                               key0 + 16 * t + lane / 4 + i / 2 % 2 * 8);
                weight[t][8 * j + i] = seen ? weight[t][8 * j + i] : 0;
                d_score[t][8 * j + i] = seen ? d_score[t][8 * j + i] : 0;
            }
}
