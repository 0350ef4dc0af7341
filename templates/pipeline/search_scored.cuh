// Which tiles are searched for maxima, where masks or scores are expressions. There are many masked tiles, and most are not searched.

// True if some rows of the tile have no m yet.
__device__ __forceinline__ bool wants_search(const Consumer &c, bool) { return c.search; }
// True if the tile is masked but not searched.
__device__ __forceinline__ bool masked_unsearched(const Consumer &c, bool first) { return c.is_masked(first); }
