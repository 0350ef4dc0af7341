//$ needs score
//$ include "params/attention.h"
//$ include "target/any.cuh"

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

// The m to subtract: 0 while all scores of the row are -INFINITY.
__device__ __forceinline__ float finite_max(float max) { return max == -INFINITY ? 0 : max; }

// Returns the factor from m and s to exponents of 2.
__device__ __forceinline__ float exponent_factor(const attention_params &p) {
    return LOG2_E; // the score expression has applied scale                         //$ if score == custom_score
    return fmaxf(fabsf(p.scale), 0x1p-120f) * LOG2_E; // not 0: 0 * -INFINITY is NaN //$ else
}

// 2^((s - m) c)
__device__ __forceinline__ float weight_of(float s, float max, float c) {
    return exp2_approx(__fsub_rn(s, finite_max(max)) * c); // not contracted: docs/numerics.md
}

// ln(sum of exp(score)), from m and l.
__device__ __forceinline__ float lse_of(const attention_params &p, float max, float sum) {
    return sum == 0 ? -INFINITY : max + log2_approx(sum) * LN_2;                  //$ if score == custom_score
    return sum == 0 ? -INFINITY : max * fabsf(p.scale) + log2_approx(sum) * LN_2; //$ else
}
