//$ needs lanes_m lanes_n thread_m thread_n
//$ include "fragment/simt_place.cuh"

// S = score(scale S)
__device__ __forceinline__ void apply_score(const attention_params &p, const QTile &q_tile, int key0, Place at,
                                            float (&s)[THREAD_M][THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            s[i][j] = score_of(p, q_tile.where, min(q_tile.q_first + at.row + LANES_M * i, q_tile.q_last),
                               min(key0 + at.lane + LANES_N * j, p.len_kv - 1), p.scale * s[i][j]);
}
