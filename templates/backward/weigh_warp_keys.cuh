//$ needs dropout row_tiles_n step_m
//$ include "backward/weigh_tile.cuh"
//$ include "backward/kept_pairs.cuh" if dropout == 1

// S^T and dP^T -> P^T and dS^T.
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[ROW_TILES_N][STEP_M / 2], float (&d_weight)[ROW_TILES_N][STEP_M / 2],
                                           const attention_params &p, const Where &at, const float *lse2, const float *dot,
                                           int query0, int key0) {
    const int lane = threadIdx.x % 32;
    //$ if dropout == 1
    unsigned kept[ROW_TILES_N];
    find_kept_keys<ROW_TILES_N, STEP_M>(kept, dropout_of(p, static_cast<long long>(at.b) * p.heads + at.h), query0 + lane % 4 * 2,
                                        key0 + lane / 4);
    drop_gradients(d_weight, kept, p.dropout_factor);
    //$ end
#pragma unroll
    for (int j = 0; j < STEP_M / 8; j++) {
        const int column = 8 * j + lane % 4 * 2;
        const float2 lse2_of = *reinterpret_cast<const float2 *>(lse2 + column);
        const float2 dot_of = *reinterpret_cast<const float2 *>(dot + column);
#pragma unroll
        for (int t = 0; t < ROW_TILES_N; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weigh_pair<MASKED>(p, at, query0 + column + i % 2, key0 + 16 * t + lane / 4 + i / 2 * 8,
                                   i % 2 ? lse2_of.y : lse2_of.x, i % 2 ? dot_of.y : dot_of.x, s[t][4 * j + i],
                                   d_weight[t][4 * j + i]);
    }
    drop_weights(s, kept); //$ if dropout == 1
}
