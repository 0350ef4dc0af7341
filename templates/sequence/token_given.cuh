//$ needs rope
//$ include "sequence/token.cuh"

// A list of tokens: where each goes and its position are given.

__device__ __forceinline__ Source source_of(const append_kv_params &p, int index) {
    return {index / p.len_q, index % p.len_q};
}
//$ if rope == none
__device__ __forceinline__ Token token_of(const append_kv_params &, int) { return {0}; }
//$ else
__device__ __forceinline__ Token token_of(const append_kv_params &p, int index) { return {0, p.positions[index]}; }
//$ end
