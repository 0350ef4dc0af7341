//$ include "fragment/reduce.cuh"

// The online softmax. The state of a row is two numbers. The states of two sets of scores combine to the state of their union, in
// any order and grouping; {-INFINITY, 0} is the neutral element. Tiling, splitting and merging attention rely on this.

struct SoftmaxState {
    float max; // m: the largest score; -INFINITY when there was none
    float sum; // l: the sum of exp(score - m)
};

__device__ __forceinline__ SoftmaxState softmax_of_nothing() { return {-INFINITY, 0}; }
__device__ __forceinline__ SoftmaxState softmax_of(float score) { return {score, 1}; }

// exp(score - max). While all scores are -INFINITY, subtract 0: -INFINITY - -INFINITY is NaN. The difference must not be
// contracted with the product that gave the score: docs/numerics.md.
__device__ __forceinline__ float softmax_weight(float score, float max) {
    return expf(__fsub_rn(score, max == -INFINITY ? 0.0f : max));
}

// m = max(m_a, m_b),  l = l_a exp(m_a - m) + l_b exp(m_b - m). A NaN score never becomes the maximum, but makes the sum NaN.
__device__ __forceinline__ SoftmaxState softmax_join(SoftmaxState a, SoftmaxState b) {
    float max = fmaxf(a.max, b.max);
    return {max, a.sum * softmax_weight(a.max, max) + b.sum * softmax_weight(b.max, max)};
}

__device__ __forceinline__ SoftmaxState shuffle_xor(SoftmaxState state, unsigned lanes, int step) {
    return {shuffle_xor(state.max, lanes, step), shuffle_xor(state.sum, lanes, step)};
}

// Divides by l. A row that saw no key stays 0.
__device__ __forceinline__ float softmax_normalize(float x, SoftmaxState state) {
    return state.sum == 0 ? x : x / state.sum;
}

// log(sum of exp(score)) = m + log l; -INFINITY for nothing.
__device__ __forceinline__ float softmax_lse(SoftmaxState state) { return state.max + logf(state.sum); }
