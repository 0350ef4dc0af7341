//$ needs block_n
//$ include "fragment/score_rest.cuh"

// The score is cap * tanh(factor * s) + rest. Cap and factor are the same for a whole head.
__device__ __forceinline__ float score_cap(const attention_params &p, const Where &at) {
    //$ code cap
}
__device__ __forceinline__ float score_factor(const attention_params &p, const Where &at) {
    //$ code factor
}

constexpr float SMALL = 0.31f, MEDIUM = 0.95f; // the polynomials for tanh(x) are used up to these |x|

// Products before scaling -> scores as exponents of 2.
struct Score {
    Rest rest;
    float cap, factor; // x = factor * product
    float small;       // products up to here have |x| <= SMALL
    // For those, cap * tanh(x) = v ((v^2 + curve[0])^2 + curve[1]) within a relative error of 2^-19, where v = shrink * product.
    float shrink, curve[2];
};

__device__ __forceinline__ void begin_score(Score &score, const attention_params &p, const Where &at) {
    begin_rest(score.rest, p, at);
    score.factor = score_factor(p, at) * p.scale;
    score.cap = score_cap(p, at) * LOG2_E;
    // The odd polynomial of degree 5 with the smallest relative error to tanh up to SMALL: in x it would be
    // FIFTH * x ((x^2 + a)^2 + b). The fifth root of the factor before x goes into v; one Newton step makes it exact.
    constexpr float FIFTH = 0.125885732f;
    float power = fabsf(score.cap) * FIFTH, root = exp2_approx(log2_approx(power) * 0.2f), squared = root * root;
    root = power > 0x1p-120f ? fmaf(fmaf(power, reciprocal_approx(squared * squared), -root), 0.2f, root) : 0;
    score.shrink = (score.cap < 0 ? -root : root) * score.factor;
    score.curve[0] = -1.32290008f * root * root;
    score.curve[1] = 6.19363619f * root * root * root * root;
    score.small = SMALL / fabsf(score.factor);
}

// s = cap * tanh(x) + rest by the polynomial, with one register besides s, so several elements are in flight at once.
__device__ __forceinline__ void cap_small(float (&s)[BLOCK_N / 2], const Score &score) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++) {
        float v = s[i] * score.shrink, square = fmaf(v, v, score.curve[0]);
        s[i] = fmaf(v, fmaf(square, square, score.curve[1]), score.rest.of(i));
    }
}

// The same for |x| <= MEDIUM: the polynomial of degree 11 with the smallest relative error to tanh.
__device__ __forceinline__ void cap_medium(float (&s)[BLOCK_N / 2], const Score &score) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++) {
        float x = s[i] * score.factor, square = x * x, curve = fmaf(square, -0.003362713f, 0.017378717f);
        curve = fmaf(square, fmaf(square, curve, -0.052079128f), 0.132956468f);
        curve = fmaf(square, fmaf(square, curve, -0.333305115f), 0.999999651f);
        s[i] = fmaf(x * curve, score.cap, score.rest.of(i));
    }
}

// s = cap * tanh(x) + rest, for any x: tanh(x) = 1 - 2 / (e^2x + 1), which is 1 from e^2x = 2^30 on. Special functions bound
// this path, so four elements share a reciprocal, that of the product of their divisors.
__device__ __forceinline__ void cap_any(float (&s)[BLOCK_N / 2], const Score &score) {
    const float twice = score.factor * (2 * LOG2_E);
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i += 4) {
        float divisor[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            divisor[j] = exp2_approx(fminf(s[i + j] * twice, 30)) + 1;
        const float first = divisor[0] * divisor[1], second = divisor[2] * divisor[3];
        const float all = -2 * reciprocal_approx(first * second); // -2 / (d0 d1 d2 d3)
        const float both[2] = {all * second, all * first};
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (s[i + j] == s[i + j]) // a NaN stays a NaN and affects no other element: fminf has kept it out of the product
                s[i + j] = fmaf(fmaf(both[j / 2], divisor[j ^ 1], 1), score.cap, score.rest.of(i + j));
    }
}

// Products -> scores.
__device__ __forceinline__ void apply_score(float (&s)[BLOCK_N / 2], const Score &score) {
    float largest[4] = {0, 0, 0, 0}; // in four parts, so that comparisons do not wait for each other
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        largest[i % 4] = fmaxf(largest[i % 4], fabsf(s[i]));
    float most = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    if (__all_sync(0xffffffffu, most <= score.small))
        cap_small(s, score);
    else if (__all_sync(0xffffffffu, most <= score.small * (MEDIUM / SMALL)))
        cap_medium(s, score);
    else
        cap_any(s, score);
}
