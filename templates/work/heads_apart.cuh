//$ include "work/tile.cuh"

// A tile holds queries of one head.
__device__ __forceinline__ int queries_of_unit(const attention_params &) { return 64; }
__device__ __forceinline__ int queries_of_tile(const attention_params &) { return TILE_ROWS; }
__device__ __forceinline__ int rows_of_unit(const attention_params &) { return 64; }

// Heads that have tiles of their own.
__device__ __forceinline__ int tile_heads(const attention_params &p) { return p.heads; }

// Tile `tile` of a head; `index` counts heads and batches.
__device__ __forceinline__ Tile tile_of(const attention_params &p, int index, int tile) {
    //$ if score_bias == bias_rows
    // Batches of a head go together: what the score adds may be the same for them.
    int head = index / p.batch, batch = index % p.batch;
    //$ else
    int head = index % p.heads, batch = index / p.heads;
    //$ end
    return {tile * queries_of_tile(p), head, head / (p.heads / p.kv_heads), batch};
}

__device__ __forceinline__ Row row_of(const attention_params &p, Tile tile, int unit, int row) {
    return {tile.query + unit * queries_of_unit(p) + row, tile.head};
}
