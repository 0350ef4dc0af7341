//$ include "part/formula.cuh"
//$ include "part/softmax_rows.cuh"

//$ if score_form == tanh
// The score is cap * tanh(factor * s) + rest. Cap and factor are the same for a whole head.
__device__ __forceinline__ float score_cap(const attention_params &p, const Where &at) {
    //$ code cap
}
//$ else
// The score is factor * s + rest. The factor is the same for a whole head.
//$ end
__device__ __forceinline__ float score_factor(const attention_params &p, const Where &at) {
    //$ code factor
}
//$ if score_rest == alibi
// The rest is slope * (k - q).
//$ else
__device__ __forceinline__ float score_rest(const attention_params &p, const Where &at, int q, int k) {
    //$ code rest
}
//$ end
//$ if score_rest != constant
// By which the rest grows from one key to the next, the same for a whole head.
__device__ __forceinline__ float score_slope(const attention_params &p, const Where &at) {
    //$ code slope
}
//$ end

//$ if score_form == tanh
constexpr float SMALL = 0.31f, MEDIUM = 0.95f; // how far the polynomials for tanh(x) reach
//$ end
// What is the same for all queries and keys of a head, for scores as exponents of 2, made of products before scaling.
struct Fold {
    //$ if score_rest != constant
    float slope; // by which the rest grows from key to key
    //$ end
    //$ if score_form == tanh
    float cap, factor; // x = factor * product
    float small;       // products up to here have |x| <= SMALL
    // For those cap * tanh(x) = v ((v^2 + curve[0])^2 + curve[1]) to 2^-19 of it, where v = shrink * product.
    float shrink, curve[2];
    //$ else
    float factor;
    //$ end
};

__device__ __forceinline__ Fold fold_score(const attention_params &p, const Where &at) {
    Fold fold;
    //$ if score_rest != constant
    fold.slope = score_slope(p, at) * LOG2_E;
    //$ end
    float factor = score_factor(p, at) * p.scale;
    //$ if score_form == tanh
    fold.cap = score_cap(p, at) * LOG2_E;
    fold.factor = factor;
    // The odd polynomial of degree 5 that is nearest to tanh, relative to it, up to SMALL: of x it would be
    // FIFTH * x ((x^2 + a)^2 + b). The fifth root of what is before x goes into v; one step of Newton makes it exact.
    constexpr float FIFTH = 0.125885732f;
    float power = fabsf(fold.cap) * FIFTH, root = exp2_approx(log2_approx(power) * 0.2f), squared = root * root;
    root = power > 0x1p-120f ? fmaf(fmaf(power, reciprocal_approx(squared * squared), -root), 0.2f, root) : 0;
    fold.shrink = (fold.cap < 0 ? -root : root) * factor;
    fold.curve[0] = -1.32290008f * root * root;
    fold.curve[1] = 6.19363619f * root * root * root * root;
    fold.small = SMALL / fabsf(factor);
    //$ else
    fold.factor = factor * LOG2_E;
    //$ end
    return fold;
}

// The rest of a score, less `from`, as an exponent of 2.
__device__ __forceinline__ float rest_at(const attention_params &p, const Where &at, const Fold &fold, int q, int k,
                                         float from) {
    //$ if score_rest == alibi
    return fmaf(static_cast<float>(k - q), fold.slope, -from * LOG2_E);
    //$ else
    return (score_rest(p, at, q, k) - from) * LOG2_E;
    //$ end
}

// What a row that has no m yet takes its scores less: the rest of one of them, so that a large one does not swallow what
// differs from key to key.
__device__ __forceinline__ float first_rest(const attention_params &p, const Where &at, int q, int k) {
    //$ if score_rest == alibi
    float rest = static_cast<float>(k - q) * score_slope(p, at);
    //$ else
    float rest = score_rest(p, at, q, k);
    //$ end
    return fabsf(rest) < INFINITY ? rest : 0;
}

// The rest of this thread's element i of a tile, of which `rest[r]` is that at its first key.
__device__ __forceinline__ float rest_of(const Fold &fold, const float (&rest)[2], int i) {
    //$ if score_rest != constant
    return fmaf(static_cast<float>(8 * (i / 4) + i % 2), fold.slope, rest[i / 2 % 2]);
    //$ else
    return rest[i / 2 % 2];
    //$ end
}

//$ if score_form == tanh
// s = cap * tanh(x) + rest by the curve, in place but for one register: so several elements are under way at once.
__device__ __forceinline__ void cap_small(float (&s)[BLOCK_N / 2], const Fold &fold, const float (&rest)[2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++) {
        float v = s[i] * fold.shrink, square = fmaf(v, v, fold.curve[0]);
        s[i] = fmaf(v, fmaf(square, square, fold.curve[1]), rest_of(fold, rest, i));
    }
}

// The same for |x| <= MEDIUM: the polynomial of degree 11 that is nearest to tanh, relative to it.
__device__ __forceinline__ void cap_medium(float (&s)[BLOCK_N / 2], const Fold &fold, const float (&rest)[2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++) {
        float x = s[i] * fold.factor, square = x * x, curve = fmaf(square, -0.003362713f, 0.017378717f);
        curve = fmaf(square, fmaf(square, curve, -0.052079128f), 0.132956468f);
        curve = fmaf(square, fmaf(square, curve, -0.333305115f), 0.999999651f);
        s[i] = fmaf(x * curve, fold.cap, rest_of(fold, rest, i));
    }
}

// s = cap * tanh(x) + rest, of any x: tanh(x) = 1 - 2 / (e^2x + 1). Rarely needed, so in a loop, through whose few registers
// all elements pass.
__device__ __forceinline__ void cap_any(float (&s)[BLOCK_N / 2], const Fold &fold, const float (&rest)[2]) {
    constexpr int MANY = 4;
    float up[2] = {rest[0] + fold.cap, rest[1] + fold.cap}, twice = fold.factor * (2 * LOG2_E);
#pragma unroll 1
    for (int round = 0; round < BLOCK_N / 2 / MANY; round++) {
        //$ if score_rest != constant
        float step = static_cast<float>(2 * MANY * round), at[2] = {fmaf(step, fold.slope, up[0]), fmaf(step, fold.slope, up[1])};
        //$ else
        const float(&at)[2] = up;
        //$ end
        float done[MANY];
#pragma unroll
        for (int i = 0; i < MANY; i++)
            done[i] = fmaf(-2 * fold.cap, reciprocal_approx(exp2_approx(s[i] * twice) + 1), rest_of(fold, at, i));
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++)
            s[i] = i + MANY < BLOCK_N / 2 ? s[i + MANY] : done[i + MANY - BLOCK_N / 2];
    }
}

// Products -> scores.
__device__ __forceinline__ void apply_fold(float (&s)[BLOCK_N / 2], const Fold &fold, const float (&rest)[2]) {
    float largest[4] = {0, 0, 0, 0}; // of four parts, or each comparison would wait for the last
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        largest[i % 4] = fmaxf(largest[i % 4], fabsf(s[i]));
    float most = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    if (__all_sync(0xffffffffu, most <= fold.small))
        cap_small(s, fold, rest);
    else if (__all_sync(0xffffffffu, most <= fold.small * (MEDIUM / SMALL)))
        cap_medium(s, fold, rest);
    else
        cap_any(s, fold, rest);
}
//$ else
// Products -> scores.
__device__ __forceinline__ void apply_fold(float (&s)[BLOCK_N / 2], const Fold &fold, const float (&rest)[2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        s[i] = fmaf(s[i], fold.factor, rest_of(fold, rest, i));
}
//$ end
