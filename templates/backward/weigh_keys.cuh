//$ needs score dropout step_m bfloat16
//$ include "backward/pair_weight.cuh"
//$ include "target/sm_80.cuh"

// S^T and dP^T of 64 keys -> P^T and dS^T, in the accumulator layout of wgmma: element 8 j + 4 h + 2 r + e of a thread is of row
// 16 w + lane / 4 + 8 r of its warp w, which is a key, and of column 16 j + 8 h + lane % 4 * 2 + e, which is a query.

// The four numbers of a thread for 16 queries, [2 h + e]. An ldmatrix whose eight rows are one gives each lane a 4-byte word of
// it for less than a vector load costs; row_place() says where they are.
__device__ __forceinline__ void load_statistics(float (&number)[4], SharedAddress at) {
    unsigned word[4];
    load_matrices_at(word, at + static_cast<unsigned>(threadIdx.x) % 32 / 8 * 16);
#pragma unroll
    for (int i = 0; i < 4; i++)
        number[i] = __int_as_float(static_cast<int>(word[i]));
}

//$ if score == custom_score
// S^T -> P^T as operand of dV += P^T dO, and in the place of S^T the slopes. `lse2`: the statistics of queries from query0 on; key0:
// the key of the thread's first row.
//$ if dropout == 1
// Bit i of `kept` is for element i: P^T of what is dropped is 0, the slope is not.
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], unsigned (&weights)[STEP_M / 16][4], const attention_params &p,
                                           const Where &at, SharedAddress lse2, int query0, int key0, unsigned kept) {
    //$ else
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], unsigned (&weights)[STEP_M / 16][4], const attention_params &p,
                                           const Where &at, SharedAddress lse2, int query0, int key0) {
    //$ end
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float lse2_of[4];
        load_statistics(lse2_of, lse2 + 64 * j);
#pragma unroll
        for (int i = 0; i < 4; i++) { // a pair of queries: h = i / 2, r = i % 2
            float *const value = &s[8 * j + 2 * i];
            const int query = first + 16 * j + i / 2 * 8, key = key0 + i % 2 * 8;
            const PairWeight a = pair_weight<MASKED>(p, at, query, key, lse2_of[i / 2 * 2], value[0]);
            const PairWeight b = pair_weight<MASKED>(p, at, query + 1, key, lse2_of[i / 2 * 2 + 1], value[1]);
            //$ if dropout == 1
            const unsigned pair = kept >> (8 * j + 2 * i);
            weights[j][i] = pack<BFLOAT16>(pair & 1 ? a.weight : 0, pair & 2 ? b.weight : 0);
            //$ else
            weights[j][i] = pack<BFLOAT16>(a.weight, b.weight);
            //$ end
            value[0] = a.slope, value[1] = b.slope;
        }
    }
}
//$ else
// S^T -> P^T, which are the slopes too. `lse2`: the statistics of queries from query0 on; key0: the key of the thread's first row.
template <bool MASKED>
__device__ __forceinline__ void weigh_keys(float (&s)[STEP_M / 2], const attention_params &p, const Where &at, SharedAddress lse2,
                                           int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float lse2_of[4];
        load_statistics(lse2_of, lse2 + 64 * j);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int query = first + 16 * j + i / 4 * 8 + i % 2, key = key0 + i / 2 % 2 * 8;
            s[8 * j + i] = pair_weight<MASKED>(p, at, query, key, lse2_of[i / 4 * 2 + i % 2], s[8 * j + i]).weight;
        }
    }
}
//$ end

// Values of the accumulator layout as operand a of a product.
__device__ __forceinline__ void pack_values(unsigned (&pairs)[STEP_M / 16][4], const float (&value)[STEP_M / 2]) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[j][i] = pack<BFLOAT16>(value[8 * j + 2 * i], value[8 * j + 2 * i + 1]);
}

//$ if dropout == 1
// The same, 0 where bit i of `kept` is 0.
__device__ __forceinline__ void pack_kept(unsigned (&pairs)[STEP_M / 16][4], const float (&value)[STEP_M / 2], unsigned kept) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = 8 * j + 2 * i;
            pairs[j][i] = pack<BFLOAT16>(kept >> at & 1 ? value[at] : 0, kept >> at & 2 ? value[at + 1] : 0);
        }
}

// dS^T = slope (M dP^T - D) with M = factor of what dropout keeps, else 0, as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_key_gradients(unsigned (&d_s)[STEP_M / 16][4], float (&d_weight)[STEP_M / 2],
                                                const float (&slope)[STEP_M / 2], SharedAddress dot, unsigned kept, float factor) {
    //$ else
// dS^T = slope (dP^T - D), as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_key_gradients(unsigned (&d_s)[STEP_M / 16][4], float (&d_weight)[STEP_M / 2],
                                                const float (&slope)[STEP_M / 2], SharedAddress dot) {
    //$ end
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float dot_of[4];
        load_statistics(dot_of, dot + 64 * j);
#pragma unroll
        for (int i = 8 * j; i < 8 * j + 8; i++) {
            //$ if dropout == 1
            const float value = slope[i] * fmaf(factor, kept >> i & 1 ? d_weight[i] : 0, -dot_of[i % 8 / 4 * 2 + i % 2]);
            //$ else
            const float value = slope[i] * (d_weight[i] - dot_of[i % 8 / 4 * 2 + i % 2]);
            //$ end
            d_weight[i] = MASKED && slope[i] == 0 ? 0 : value; // whatever dP is of a pair that is not seen
        }
    }
    pack_values(d_s, d_weight);
}
