// Which maxima are searched for, where scores are products alone. A masked tile is searched, so the usual path has no mask.

// Some rows of the tile may have no m yet?
__device__ __forceinline__ bool wants_search(const Consumer &c, bool first) {
    return c.is_masked(first) || c.raises.are_many() && lacks_max(c.rows);
}
// Is a tile masked that is not searched?
__device__ __forceinline__ bool masked_unsearched(const Consumer &, bool) { return false; }
