// The Q tiles of a head: of those heads that tiles are counted by (tile_heads).
__device__ __forceinline__ int tiles_of_head(const attention_params &p) {
    return (p.len_q + queries_of_tile(p) - 1) / queries_of_tile(p);
}
