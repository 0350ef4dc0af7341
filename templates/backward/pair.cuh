//$ needs score dropout wants_d_params
//$ include "backward/pairs.cuh"
//$ include "expression/derivative.cuh"
//$ include "fragment/dropout.cuh" if dropout == 1

// One query and one key.

struct PairGradient {
    float weight;     // P, after dropout
    float d_s;        // dS, the gradient with respect to the scaled product
    float s, d_score; // the scaled product; the gradient with respect to the score //$ if wants_d_params > 0
};

// Computes P = e^(f(s) - LSE) and dS = P (dP - D) f'(s) from the scaled product s of the query and a key that it sees. A weight of 0 has
// no gradient, even where the derivative is infinite.
// Dropout multiplies P, and thus dP, by 0 or by 1 / (1 - dropout_p). //$ if dropout == 1
__device__ __forceinline__ PairGradient pair_gradient(const attention_params &p, const Where &at, int query, int key, float s,
                                                      float d_weight, float lse, float dot) {
    float score = s;
    score = score_of(p, at, position_of(p, query), key, s); //$ if score == custom_score
    const float weight = expf(__fsub_rn(score, lse == -INFINITY ? 0.0f : lse));
    const bool kept = keeps_pair(dropout_of(p, static_cast<long long>(at.b) * p.heads + at.h), query, key); //$ if dropout == 1
    d_weight = kept ? p.dropout_factor * d_weight : 0;                                                      //$ if dropout == 1
    const float d_score = weight * (d_weight - dot);
    float d_s = d_score;
    d_s *= derivative_of(p, at, position_of(p, query), key, s); //$ if score == custom_score
    PairGradient pair;
    pair.weight = weight;
    pair.weight = kept ? p.dropout_factor * weight : 0; //$ if dropout == 1
    pair.d_s = weight == 0 ? 0.0f : d_s;
    pair.s = s;                                  //$ if wants_d_params > 0
    pair.d_score = weight == 0 ? 0.0f : d_score; //$ if wants_d_params > 0
    return pair;
}
