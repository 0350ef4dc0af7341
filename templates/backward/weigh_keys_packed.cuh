//$ needs step_m bfloat16

// S^T -> P^T as operand of dV += P^T dO, the only form in which it is kept. `lse2`: the statistics of queries from query0 on; key0: the
// key of the thread's first row.
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], unsigned (&weights)[STEP_M / 16][4], const attention_params &p,
                                           const Where &at, const Statistics &lse2, int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float lse2_of[4];
        lse2.get(lse2_of, j);
#pragma unroll
        for (int i = 0; i < 4; i++) { // a pair of queries: h = i / 2, r = i % 2
            const int query = first + 16 * j + i / 2 * 8, key = key0 + i % 2 * 8;
            const bool first_seen = !MASKED || is_pair_seen(p, at, query, key);
            const bool second_seen = !MASKED || is_pair_seen(p, at, query + 1, key);
            weights[j][i] = pack<BFLOAT16>(
                pair_weight(p, at, query, key, first_seen, lse2_of[i / 2 * 2], s[8 * j + 2 * i]).weight,
                pair_weight(p, at, query + 1, key, second_seen, lse2_of[i / 2 * 2 + 1], s[8 * j + 2 * i + 1]).weight);
        }
    }
}

// dS^T = P^T (dP^T - D), as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_key_gradients(unsigned (&d_s)[STEP_M / 16][4], const float (&d_weight)[STEP_M / 2],
                                                    const unsigned (&weights)[STEP_M / 16][4], const Statistics &dots) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float dot_of[4];
        dots.get(dot_of, j);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float low = to_float(static_cast<Input>(weights[j][i])), high = to_float(static_cast<Input>(weights[j][i] >> 16));
            const float a = low * (d_weight[8 * j + 2 * i] - dot_of[i / 2 * 2]);
            const float b = high * (d_weight[8 * j + 2 * i + 1] - dot_of[i / 2 * 2 + 1]);
            // whatever dP of an unseen pair is
            d_s[j][i] = pack<BFLOAT16>(MASKED && low == 0 ? 0 : a, MASKED && high == 0 ? 0 : b);
        }
    }
}
