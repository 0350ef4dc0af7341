//$ needs mask dropout step_m bfloat16
//$ include "backward/score_keys.cuh"

// S^T -> P^T as operand of dV += P^T dO; the slopes replace S^T. `lse2`: the statistics of queries from query0 on; key0: the key of the
// thread's first row.
// Bit i of `seen` is for element i. //$ if mask == custom_mask
// Bit i of `kept` is for element i: P^T of a dropped pair is 0, its slope is not. //$ if dropout == 1
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], unsigned (&weights)[STEP_M / 16][4], const attention_params &p,
                                           const Where &at, const ScoreKeys &keys,
                                           unsigned seen, //$ if mask == custom_mask
                                           unsigned kept, //$ if dropout == 1
                                           const Statistics &lse2, int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float lse2_of[4];
        lse2.get(lse2_of, j);
#pragma unroll
        for (int i = 0; i < 4; i++) { // a pair of queries: h = i / 2, r = i % 2
            float *const value = &s[8 * j + 2 * i];
            const int query = first + 16 * j + i / 2 * 8, key = key0 + i % 2 * 8;
            //$ if mask == custom_mask
            const unsigned both = MASKED ? seen >> (8 * j + 2 * i) : 3;
            const bool first_seen = both & 1, second_seen = both & 2;
            //$ else
            const bool first_seen = !MASKED || is_pair_seen(p, at, query, key);
            const bool second_seen = !MASKED || is_pair_seen(p, at, query + 1, key);
            //$ end
            const int last_query = MASKED ? p.len_q - 1 : query + 1, last_key = MASKED ? p.len_kv - 1 : key;
            PairWeight a = pair_weight(p, at, min(query, last_query), keys(8 * j + 2 * i, min(key, last_key)), first_seen,
                                       lse2_of[i / 2 * 2], value[0]);
            PairWeight b = pair_weight(p, at, min(query + 1, last_query), keys(8 * j + 2 * i + 1, min(key, last_key)), second_seen,
                                       lse2_of[i / 2 * 2 + 1], value[1]);
            a.weight = kept >> (8 * j + 2 * i) & 1 ? a.weight : 0; //$ if dropout == 1
            b.weight = kept >> (8 * j + 2 * i) & 2 ? b.weight : 0; //$ if dropout == 1
            weights[j][i] = pack<BFLOAT16>(a.weight, b.weight);
            value[0] = a.slope, value[1] = b.slope;
        }
    }
}
