//$ include "work/tile.cuh"

// A unit holds the rows of all heads that share a key head, head by head, of as many queries as there is room for; the
// rows left over belong to nobody. So keys and values are read once for all these heads.
__device__ __forceinline__ int heads_of_tile(const attention_params &p) { return p.heads / p.kv_heads; }
__device__ __forceinline__ int queries_of_unit(const attention_params &p) { return 64 / heads_of_tile(p); }
__device__ __forceinline__ int queries_of_tile(const attention_params &p) { return TILE_ROWS / 64 * queries_of_unit(p); }
__device__ __forceinline__ int rows_of_unit(const attention_params &p) {
    return queries_of_unit(p) * heads_of_tile(p);
}

// Heads that have tiles of their own: those of the keys.
__device__ __forceinline__ int tile_heads(const attention_params &p) { return p.kv_heads; }

// Tile `tile` of a key head; `index` counts key heads and batches.
__device__ __forceinline__ Tile tile_of(const attention_params &p, int index, int tile) {
    int kv_head = index % p.kv_heads, batch = index / p.kv_heads;
    return {tile * queries_of_tile(p), kv_head * heads_of_tile(p), kv_head, batch};
}

__device__ __forceinline__ Row row_of(const attention_params &p, Tile tile, int unit, int row) {
    int queries = queries_of_unit(p), head = row / queries;
    return head < heads_of_tile(p) ? Row{tile.query + unit * queries + row % queries, tile.head + head} : Row{p.len_q, tile.head};
}
