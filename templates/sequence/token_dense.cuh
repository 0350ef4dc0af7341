//$ include "sequence/token.cuh"

// All sequences have equally many tokens: the new ones are the last in the cache.

template <typename Params> __device__ __forceinline__ Source source_of(const Params &p, int index) {
    return {index / p.len_q, index % p.len_q};
}
template <typename Params> __device__ __forceinline__ Token token_of(const Params &p, int index) {
    return {index / p.len_q, p.len_kv - p.len_q + index % p.len_q};
}
