//$ include "fragment/dropout.cuh"

// The warps of the producer warpgroup that load nothing draw the random numbers, a step or two ahead of the consumers, which have
// neither the registers nor the time for Philox.
// A step has no multiple of three pieces, so the piece that a warp begins with differs from step to step: else the third would draw fewer.
constexpr int DRAWERS = 3;

// Returns the bits `first` and `second`, of the pairs of queries i and i + 8, whose random numbers are the halves of a word.
__device__ __forceinline__ unsigned kept_bits(const Dropout &dropout, unsigned word, int first, int second) {
    return (is_kept(dropout, word, false) ? 1u << first : 0) | (is_kept(dropout, word, true) ? 1u << second : 0);
}
