//$ needs score
//$ include "backward/pair.cuh"
//$ include "backward/weigh_tile.cuh"

struct PairWeight {
    float weight; // P = e^(f(scale s) - LSE)
    float slope;  // P f'(scale s), the factor of dP - D; 0 where the weight is 0, even if the derivative is infinite
};

// Returns 0 for both if the pair is not seen. The query and the key exist even then, since the score reads what belongs to them.
template <typename Key>
__device__ __forceinline__ PairWeight pair_weight(const attention_params &p, const Where &at, int query, Key key, bool seen,
                                                  float lse2, float s) {
    //$ if score == custom_score
    const float scaled = p.scale * s;
    const float weight = exp2_approx(fmaf(score_of(p, at, position_of(p, query), key, scaled), LOG2_E, -lse2));
    const float slope = weight * derivative_of(p, at, position_of(p, query), key, scaled);
    return {seen ? weight : 0, seen && weight != 0 ? slope : 0};
    //$ else
    const float weight = exp2_approx(fmaf(s, p.scale * LOG2_E, -lse2));
    return {seen ? weight : 0, seen ? weight : 0};
    //$ end
}
