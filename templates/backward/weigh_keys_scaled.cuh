//$ needs step_m mask score added_ahead rows_in_order
//$ include "backward/score_keys.cuh" if score == custom_score
//$ let names_pairs = mask != custom_mask or (score == custom_score and not added_ahead)

// S^T -> P^T, which is also the slopes. `lse2`: the statistics of queries from query0 on; key0: the key of the thread's first row.
// Of queries 16 begin to 16 end - 1. //$ if rows_in_order
// Bit i of `seen` is for element i. //$ if mask == custom_mask
// `added`: what the score adds to the scaled products. //$ if added_ahead
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], const attention_params &p, const Where &at,
                                           const ScoreKeys &keys, //$ if score == custom_score and not added_ahead
                                           unsigned seen, //$ if mask == custom_mask
                                           const float (&added)[STEP_M / 2], //$ if added_ahead
                                           int begin, int end, //$ if rows_in_order
                                           const Statistics &lse2, int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2; //$ if names_pairs
#pragma unroll
    for (int j = begin; j < end; j++) { //$ if rows_in_order
    for (int j = 0; j < STEP_M / 16; j++) { //$ else
        float lse2_of[4];
        lse2.get(lse2_of, j);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int query = first + 16 * j + i / 4 * 8 + i % 2, key = key0 + i / 2 % 2 * 8; //$ if names_pairs
            float lse2_here = lse2_of[i / 4 * 2 + i % 2];
            //$ if added_ahead
            const float addend = added[8 * j + i];
            //$ elif score == custom_score
            const int last_query = MASKED ? p.len_q - 1 : query, last_key = MASKED ? p.len_kv - 1 : key;
            const float addend = score_of(p, at, position_of(p, min(query, last_query)), keys(8 * j + i, min(key, last_key)), 0.0f);
            //$ end
            lse2_here = fmaf(addend, -LOG2_E, lse2_here); // P = e^(scale s + addend - LSE) //$ if score == custom_score
            const bool is_seen = !MASKED || seen >> (8 * j + i) & 1;           //$ if mask == custom_mask
            const bool is_seen = !MASKED || is_pair_seen(p, at, query, key); //$ else
            const float weight = exp2_approx(fmaf(s[8 * j + i], p.scale * LOG2_E, -lse2_here));
            s[8 * j + i] = is_seen ? weight : 0;
        }
    }
}
