// Which tiles are searched for maxima, where scores are plain products. A masked tile is searched, so the usual path has no mask.

// True if some rows of the tile may have no m yet.
__device__ __forceinline__ bool wants_search(const Consumer &c, bool first) {
    return c.is_masked(first) || c.raises.are_many() && lacks_max(c.rows);
}
// True if the tile is masked but not searched.
__device__ __forceinline__ bool masked_unsearched(const Consumer &, bool) { return false; }
