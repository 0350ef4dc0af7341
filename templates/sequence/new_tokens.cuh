//$ needs dtype
//$ include "params/attention.h"
//$ include "sequence/element.cuh"

// New tokens, which come beside the cache (knob append): the last keys of a sequence, one for each of its queries.

// Keys of a sequence that the cache had before; below 0 where a sequence has fewer keys than queries.
__device__ __forceinline__ int keys_before(const attention_params &p) { return p.len_kv - p.len_q; }

__device__ __forceinline__ Input to_input(float x) { return float_to_half(x); } //$ if dtype == fp16
__device__ __forceinline__ Input to_input(float x) { return static_cast<Input>(pack<true>(x, 0.0f)); } //$ else
