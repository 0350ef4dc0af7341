//$ needs step_n bfloat16
//$ include "backward/pair_weight.cuh"
//$ include "target/sm_80.cuh"

// S and dP of 64 queries -> dS, in the accumulator layout of wgmma: element 4 j + 2 r + e of a thread is in row
// 16 w + lane / 4 + 8 r, a query, where w is its warp, and in column 8 j + lane % 4 * 2 + e, a key.

// Returns the sum of this thread's scores of its first row: NaN if one of them is.
__device__ __forceinline__ float scores_of_first_row(const float (&s)[STEP_N / 2]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < STEP_N / 8; i++)
        sum += s[4 * i] + s[4 * i + 1];
    return sum;
}

// S -> slopes P f'. `lse2`: of the thread's two rows, which are 8 queries apart; `query`: the first of them.
template <bool MASKED>
__device__ __forceinline__ void weigh_queries(float (&s)[STEP_N / 2], const attention_params &p, const Where &at,
                                              const float (&lse2)[2], int query, int key0) {
    const int first = key0 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < STEP_N / 2; i++) {
        const int row = query + i / 2 % 2 * 8, key = first + i / 4 * 8 + i % 2;
        const bool seen = !MASKED || is_pair_seen(p, at, row, key);
        s[i] = pair_weight(p, at, MASKED ? min(row, p.len_q - 1) : row, MASKED ? min(key, p.len_kv - 1) : key, seen, lse2[i / 2 % 2],
                           s[i]).slope;
    }
}

// Multiplies dP by `factor` where bit i of `kept` is 1, otherwise by 0.
__device__ __forceinline__ void drop_gradients(float (&d_weight)[STEP_N / 2], const unsigned (&kept)[STEP_N / 64], float factor) {
#pragma unroll
    for (int i = 0; i < STEP_N / 2; i++)
        d_weight[i] = factor * (kept[i / 32] >> i % 32 & 1 ? d_weight[i] : 0);
}

// dS = slope (dP - D), as operand of dQ += dS K.
template <bool MASKED>
__device__ __forceinline__ void weigh_query_gradients(unsigned (&d_s)[STEP_N / 16][4], float (&d_weight)[STEP_N / 2],
                                                      const float (&slope)[STEP_N / 2], const float (&dot)[2]) {
#pragma unroll
    for (int i = 0; i < STEP_N / 2; i++) {
        const float value = slope[i] * (d_weight[i] - dot[i / 2 % 2]);
        d_weight[i] = MASKED && slope[i] == 0 ? 0 : value; // whatever dP of an unseen pair is
    }
#pragma unroll
    for (int j = 0; j < STEP_N / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            d_s[j][i] = pack<BFLOAT16>(d_weight[8 * j + 2 * i], d_weight[8 * j + 2 * i + 1]);
}
