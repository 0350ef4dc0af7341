//$ needs slopes_differ step_m bfloat16
//$ include "backward/step_statistics.cuh"
//$ include "backward/pair_weight.cuh"
//$ include "target/sm_80.cuh"

// S^T and dP^T of 64 keys -> P^T and dS^T, in the accumulator layout of wgmma: element 8 j + 4 h + 2 r + e of a thread is in row
// 16 w + lane / 4 + 8 r, a key, where w is its warp, and in column 16 j + 8 h + lane % 4 * 2 + e, a query.

// Packs values in the accumulator layout into operand a of a product.
__device__ __forceinline__ void pack_values(unsigned (&pairs)[STEP_M / 16][4], const float (&value)[STEP_M / 2]) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[j][i] = pack<BFLOAT16>(value[8 * j + 2 * i], value[8 * j + 2 * i + 1]);
}

// The same, with 0 where bit i of `kept` is 0.
__device__ __forceinline__ void pack_kept(unsigned (&pairs)[STEP_M / 16][4], const float (&value)[STEP_M / 2], unsigned kept) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = 8 * j + 2 * i;
            pairs[j][i] = pack<BFLOAT16>(kept >> at & 1 ? value[at] : 0, kept >> at & 2 ? value[at + 1] : 0);
        }
}

// Multiplies dP^T by `factor` where bit i of `kept` is 1, otherwise by 0.
__device__ __forceinline__ void drop_gradients(float (&d_weight)[STEP_M / 2], unsigned kept, float factor) {
#pragma unroll
    for (int i = 0; i < STEP_M / 2; i++)
        d_weight[i] = factor * (kept >> i & 1 ? d_weight[i] : 0);
}

//$ include "backward/weigh_keys_custom.cuh" if slopes_differ else "backward/weigh_keys_scaled.cuh"
//$ include "backward/weigh_key_slopes.cuh"
