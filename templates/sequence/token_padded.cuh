//$ include "sequence/token.cuh"

// Equally many new tokens of each sequence: the last of those that lengths_kv counts.

__device__ __forceinline__ Source source_of(const append_kv_params &p, int index) {
    return {index / p.len_q, index % p.len_q};
}
__device__ __forceinline__ Token token_of(const append_kv_params &p, int index) {
    int sequence = index / p.len_q;
    return {sequence, p.lengths_kv[sequence] - p.len_q + index % p.len_q};
}
