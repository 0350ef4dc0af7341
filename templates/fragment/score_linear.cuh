//$ include "fragment/score_rest.cuh"

// The score is factor * s + rest. The factor is the same for a whole head.
__device__ __forceinline__ float score_factor(const attention_params &p, const Where &at) {
    //$ code factor
}

// Products before scaling -> scores as exponents of 2.
struct Score {
    Rest rest;
    float factor;
};

__device__ __forceinline__ void begin_score(Score &score, const attention_params &p, const Where &at) {
    begin_rest(score.rest, p, at);
    score.factor = score_factor(p, at) * p.scale * LOG2_E;
}

// Products of the tile's keys from FIRST on -> scores.
template <int FIRST = 0, int SIZE>
__device__ __forceinline__ void apply_score(float (&s)[SIZE], const Score &score) {
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        s[i] = fmaf(s[i], score.factor, score.rest.of(FIRST / 2 + i));
}
