//$ needs dtype
//$ include "params/attention.h"
//$ include "sequence/element.cuh"

// New tokens, which are passed separately from the cache (knob append): the last keys of a sequence, one for each of its queries.

// Returns the number of keys that the cache already held for a sequence; negative if it has fewer keys than queries.
__device__ __forceinline__ int keys_before(const attention_params &p) { return p.len_kv - p.len_q; }

__device__ __forceinline__ Input to_input(float x) { return float_to_half(x); } //$ if dtype == fp16
__device__ __forceinline__ Input to_input(float x) { return static_cast<Input>(pack<true>(x, 0.0f)); } //$ else
