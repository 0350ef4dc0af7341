// Returns the number of Q tiles of each head that has Q tiles of its own (tile_heads).
__device__ __forceinline__ int tiles_of_head(const attention_params &p) {
    const unsigned queries = queries_of_tile(p);
    return (p.len_q + queries - 1) / queries;
}
