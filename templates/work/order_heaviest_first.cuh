//$ include "work/place.cuh"

// The heaviest item of every head, then the second of every head, and so on.
__device__ __forceinline__ Place place_of(const attention_params &, unsigned heads, unsigned, unsigned item) { return {item % heads, item / heads}; }
