//$ include "sequence/token.cuh"

// Each sequence has equally many new tokens: the last of the tokens that lengths_kv counts.

template <typename Params> __device__ __forceinline__ Source source_of(const Params &p, int index) {
    return {index / p.len_q, index % p.len_q};
}
template <typename Params> __device__ __forceinline__ Token token_of(const Params &p, int index) {
    int sequence = index / p.len_q;
    return {sequence, p.lengths_kv[sequence] - p.len_q + index % p.len_q};
}
