//$ needs mask score
//$ include "backward/pair.cuh"
//$ include "backward/weigh_tile.cuh"

struct PairWeight {
    float weight; // P = e^(f(scale s) - LSE)
    float slope;  // P f'(scale s), by which dP - D is multiplied; 0 where the weight is, also if the derivative is infinite
};

//$ note weigh_pair tests the mask in the same way. One function for both makes ptxas 13.0 spill 8 bytes here (d 128, causal).
// Of a pair that is not seen both are 0.
template <bool MASKED>
__device__ __forceinline__ PairWeight pair_weight(const attention_params &p, const Where &at, int query, int key, float lse2,
                                                  float s) {
    bool seen = true;
    if constexpr (MASKED) {
        seen = query < p.len_q && key < p.len_kv;
        query = min(query, p.len_q - 1);
        key = min(key, p.len_kv - 1);
        seen = seen && sees_pair(p, at, query, key); //$ if mask != none
    }
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
