//$ needs mask score dropout wants_d_params
//$ include "expression/formula.cuh"
//$ include "expression/derivative.cuh"
//$ include "walk/keys_seen.cuh"
//$ include "fragment/dropout.cuh" if dropout == 1

// One query and one key.

__device__ __forceinline__ bool sees_pair(const attention_params &p, const Where &at, int query, int key) {
    return sees(p, at, position_of(p, query), key); //$ if mask == custom_mask
    return key < keys_seen(p, query);               //$ else
}

struct PairGradient {
    float weight; // P, and what dropout makes of it //$ if dropout == 1
    float weight; // P                               //$ else
    float d_s;    // dS, by the scaled product
    float s, d_score; // the scaled product, and the gradient by the score //$ if wants_d_params > 0
};

// P = e^(f(s) - LSE) and dS = P (dP - D) f'(s), of a scaled product s and a key that the query sees. A weight of 0 has no
// gradient, wherever the derivative is infinite.
// Dropout multiplies P, and so dP, by 0 or by 1 / (1 - dropout_p). //$ if dropout == 1
__device__ __forceinline__ PairGradient pair_gradient(const attention_params &p, const Where &at, int query, int key, float s,
                                                      float d_weight, float lse, float dot) {
    const float score = score_of(p, at, position_of(p, query), key, s); //$ if score == custom_score
    const float score = s;                                              //$ else
    const float weight = expf(__fsub_rn(score, lse == -INFINITY ? 0.0f : lse));
    //$ if dropout == 1
    const bool kept = keeps_pair(dropout_of(p, static_cast<long long>(at.b) * p.heads + at.h), query, key);
    float d_s = weight * ((kept ? p.dropout_factor * d_weight : 0) - dot);
    //$ else
    float d_s = weight * (d_weight - dot);
    //$ end
    const float d_score = d_s; //$ if wants_d_params > 0
    d_s *= derivative_of(p, at, position_of(p, query), key, s); //$ if score == custom_score
    PairGradient pair;
    pair.weight = kept ? p.dropout_factor * weight : 0; //$ if dropout == 1
    pair.weight = weight;                               //$ else
    pair.d_s = weight == 0 ? 0.0f : d_s;
    //$ if wants_d_params > 0
    pair.s = s;
    pair.d_score = weight == 0 ? 0.0f : d_score;
    //$ end
    return pair;
}
