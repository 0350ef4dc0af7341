//$ include "fragment/dropout.cuh"

// The warps of the producer's warpgroup that load nothing draw the random numbers, a step or two ahead of the consumers: these have
// neither registers nor time for Philox.
constexpr int DRAWERS = 3;

// Bits of the pairs of two queries, i and i + 8, whose numbers are a word.
__device__ __forceinline__ unsigned kept_bits(const Dropout &dropout, unsigned word, int first, int second) {
    return (is_kept(dropout, word, false) ? 1u << first : 0) | (is_kept(dropout, word, true) ? 1u << second : 0);
}
