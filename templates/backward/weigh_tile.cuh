//$ needs score
//$ include "backward/pairs.cuh"
//$ include "expression/derivative.cuh"

// S and dP of a tile of pairs -> P and dS, in registers, in the accumulator layout of mma: element 4 j + 2 r + e of a thread is in
// row lane / 4 + 8 r and column 8 j + lane % 4 * 2 + e of 16 rows.

constexpr float LOG2_E = 1.44269504f;

// Replaces s by P = e^(f(scale s) - LSE) and dP by dS = P (dP - D) f'(scale s) of one pair. Both are 0 for a pair that is not seen,
// whatever they were. Returns the gradient with respect to the score, P (dP - D).
template <bool MASKED>
__device__ __forceinline__ float weigh_pair(const attention_params &p, const Where &at, int query, int key, float lse2, float dot,
                                            float &s, float &d_weight) {
    bool seen = true;
    if constexpr (MASKED) {
        seen = is_pair_seen(p, at, query, key);
        query = min(query, p.len_q - 1);
        key = min(key, p.len_kv - 1);
    }
    const float difference = d_weight - dot;
    //$ if score == custom_score
    const float scaled = p.scale * s;
    const float weight = exp2_approx(fmaf(score_of(p, at, position_of(p, query), key, scaled), LOG2_E, -lse2));
    const float d_score = seen && weight != 0 ? weight * difference : 0;
    d_weight = d_score == 0 ? 0 : d_score * derivative_of(p, at, position_of(p, query), key, scaled); // also if the derivative is infinite
    //$ else
    const float weight = exp2_approx(fmaf(s, p.scale * LOG2_E, -lse2));
    const float d_score = seen ? weight * difference : 0;
    d_weight = d_score;
    //$ end
    s = seen ? weight : 0;
    return d_score;
}
