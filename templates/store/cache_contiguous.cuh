//$ include "store/place.cuh"
// A cache of len_kv tokens for each sequence.

template <typename Params> __device__ __forceinline__ Place place_of(const Params &p, int, Token token) {
    return {0 <= token.position && token.position < p.len_kv ? token.sequence : -1, token.position};
}
