//$ include "work/place.cuh"

// Head after head, from the first queries to the last.
__device__ __forceinline__ Place place_of(const attention_params &, unsigned, unsigned items, unsigned item) {
    return {item / items, items - 1 - item % items};
}
