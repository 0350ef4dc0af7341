//$ needs dropout wants_d_params wants_dq head_reads head_sums row_tiles_m step_n columns_qk
//$ include "backward/weigh_tile.cuh"
//$ include "backward/kept_pairs.cuh" if dropout == 1

// Sums over keys, held by the threads of a block.
struct QuerySums {
    float dq[ROW_TILES_M][COLUMNS_QK / 2]; //$ if wants_dq == 1
    float of_head[HEAD_SUMS]; //$ if head_reads > 0
};

// S and dP -> dS.
// Also adds to the gradients of the parameters that the score reads if `adds`. //$ if wants_d_params > 0
template <bool MASKED>
__device__ __forceinline__ void weigh_queries(float (&s)[ROW_TILES_M][STEP_N / 2], float (&d_weight)[ROW_TILES_M][STEP_N / 2],
                                              const attention_backward_params &params, const Where &at,
                                              bool adds, QuerySums &sums, //$ if wants_d_params > 0
                                              const SharedQueries &shared, int first, int query0, int key0) {
    const attention_params &p = params.forward;
    const int lane = threadIdx.x % 32;
    //$ if dropout == 1
    unsigned kept[ROW_TILES_M];
    find_kept_queries<ROW_TILES_M, STEP_N>(kept, dropout_of(p, static_cast<long long>(at.b) * p.heads + at.h),
                                           query0 + first + lane / 4, key0 + lane % 4 * 2);
    drop_gradients(d_weight, kept, p.dropout_factor);
    //$ end
#pragma unroll
    for (int t = 0; t < ROW_TILES_M; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = first + 16 * t + 8 * r + lane / 4;
            const float lse2 = shared.lse2[row], dot = shared.dot[row];
#pragma unroll
            for (int i = 2 * r; i < STEP_N / 2; i += i % 2 ? 3 : 1) {
                const int query = query0 + row, key = key0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
                //$ if wants_d_params > 0
                const float scaled = p.scale * s[t][i];
                const float d_score = weigh_pair<MASKED>(p, at, query, key, lse2, dot, s[t][i], d_weight[t][i]);
                if (adds && d_score != 0)
                    add_pair(params, p, at, position_of(p, query), key, scaled, d_score, sums.of_head); //$ if head_reads > 0
                    add_pair(params, p, at, position_of(p, query), key, scaled, d_score);               //$ else
                //$ else
                weigh_pair<MASKED>(p, at, query, key, lse2, dot, s[t][i], d_weight[t][i]);
                //$ end
            }
        }
}
