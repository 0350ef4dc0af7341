//$ include "part/formula.cuh"
//$ include "part/softmax_rows.cuh"

//$ if folded == 2
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
__device__ __forceinline__ float score_rest(const attention_params &p, const Where &at, int q, int k) {
    //$ code rest
}
// By which the rest grows from one key to the next, the same for a whole head.
__device__ __forceinline__ float score_slope(const attention_params &p, const Where &at) {
    //$ code slope
}

// What is the same for all queries and keys of a head, for scores as exponents of 2, made of products before scaling.
struct Fold {
    float slope; // by which the rest grows from key to key
    //$ if folded == 2
    float cap, twice; // cap; 2 x / product as exponent of 2, for x = factor * s
    float small;      // products up to here have |x| <= 1/2; then
    float curve[4];   // cap * tanh(x) = product * (curve . (1, product^2, product^4, product^6)), to 2^-20.8 of it
    //$ else
    float factor;
    //$ end
};

__device__ __forceinline__ Fold fold_score(const attention_params &p, const Where &at) {
    Fold fold;
    fold.slope = score_slope(p, at) * LOG2_E;
    float factor = score_factor(p, at) * p.scale;
    //$ if folded == 2
    fold.cap = score_cap(p, at) * LOG2_E;
    fold.twice = 2 * factor * LOG2_E;
    float power = fold.cap * factor, square = factor * factor; // the least possible error up to 1/2, relative to tanh
    fold.curve[0] = power * 0.99999946f;
    fold.curve[1] = power * square * -0.33326318f;
    fold.curve[2] = power * square * square * 0.13190297f;
    fold.curve[3] = power * square * square * square * -0.044402226f;
    fold.small = fabsf(fold.curve[3]) < INFINITY ? 0.5f / fabsf(factor) : -1;
    //$ else
    fold.factor = factor * LOG2_E;
    //$ end
    return fold;
}
