//$ needs mask score dropout
//$ include "expression/formula.cuh"
//$ include "expression/derivative.cuh"
//$ include "walk/keys_seen.cuh"

// S and dP of a tile of pairs -> P and dS, in registers, in the accumulator layout of mma: element 4 j + 2 r + e of a thread is of
// row lane / 4 + 8 r and column 8 j + lane % 4 * 2 + e of 16 rows.

constexpr float LOG2_E = 1.44269504f;

// Does every query from query0 on see every key from key0 on, so many of each?
__device__ __forceinline__ bool all_pairs_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    if (query0 + queries > p.len_q || key0 + keys > p.len_kv)
        return false;
    //$ if mask == custom_mask
    return all_seen(p, at, position_of(p, query0), position_of(p, query0 + queries - 1), key0, key0 + keys - 1);
    //$ else
    return key0 + keys <= keys_seen(p, query0);
    //$ end
}

// Does one of them see one of those?
__device__ __forceinline__ bool some_pair_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    const int last = min(query0 + queries, p.len_q) - 1;
    //$ if mask == custom_mask
    return some_seen(p, at, position_of(p, query0), position_of(p, last), key0, min(key0 + keys, p.len_kv) - 1);
    //$ else
    return key0 < keys_seen(p, last);
    //$ end
}

// P = e^(f(scale s) - LSE) and dS = P (dP - D) f'(scale s) of one pair, s and dP on the way in. Of a pair that is not seen both are
// 0, whatever they were. Returns the gradient by the score, P (dP - D).
//$ if dropout == 1
// P of a pair that is not `kept` is 0, too. What is kept has dP / (1 - dropout_p); dV is divided at the end.
template <bool MASKED>
__device__ __forceinline__ float weigh_pair(const attention_params &p, const Where &at, int query, int key, bool kept, float lse2,
                                            float dot, float &s, float &d_weight) {
    //$ else
template <bool MASKED>
__device__ __forceinline__ float weigh_pair(const attention_params &p, const Where &at, int query, int key, float lse2, float dot,
                                            float &s, float &d_weight) {
    //$ end
    bool seen = true;
    if constexpr (MASKED) {
        seen = query < p.len_q && key < p.len_kv;
        query = min(query, p.len_q - 1);
        key = min(key, p.len_kv - 1);
        seen = seen && sees(p, at, position_of(p, query), key); //$ if mask == custom_mask
        seen = seen && key < keys_seen(p, query);               //$ elif mask == causal
    }
    const float difference = fmaf(p.dropout_factor, kept ? d_weight : 0, -dot); //$ if dropout == 1
    const float difference = d_weight - dot;                                    //$ else
    //$ if score == custom_score
    const float scaled = p.scale * s;
    const float weight = exp2_approx(fmaf(score_of(p, at, position_of(p, query), key, scaled), LOG2_E, -lse2));
    const float d_score = seen && weight != 0 ? weight * difference : 0;
    d_weight = d_score == 0 ? 0 : d_score * derivative_of(p, at, position_of(p, query), key, scaled); // also where that is infinite
    //$ else
    const float weight = exp2_approx(fmaf(s, p.scale * LOG2_E, -lse2));
    const float d_score = seen ? weight * difference : 0;
    d_weight = d_score;
    //$ end
    s = seen && kept ? weight : 0; //$ if dropout == 1
    s = seen ? weight : 0;         //$ else
    return d_score;
}
