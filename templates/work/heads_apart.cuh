//$ needs score_bias tile_rows split_keys
//$ include "work/tile.cuh"
//$ include "work/quotient.cuh"

// Without pack_gqa: a Q tile holds rows of one query head.
__device__ __forceinline__ int queries_of_unit(const attention_params &) { return 64; }
__device__ __forceinline__ int queries_of_tile(const attention_params &) { return TILE_ROWS; }
__device__ __forceinline__ int rows_of_unit(const attention_params &) { return 64; }

// Returns the number of heads that have Q tiles of their own.
__device__ __forceinline__ int tile_heads(const attention_params &p) { return p.heads; }

// Returns Q tile `tile` of a head; `index` counts heads and batches.
__device__ __forceinline__ Tile tile_of(const attention_params &p, unsigned index, int tile) {
    //$ if score_bias == bias_rows
    // Batches of a head are neighbours: they may share the bias.
    int head = index / p.batch, batch = index % p.batch;
    //$ else
    int head = index % p.heads, batch = index / p.heads;
    //$ end
    return {tile * queries_of_tile(p), head, quotient(head, quotient(p.heads, p.kv_heads)), batch};
}

__device__ __forceinline__ Row row_of(const attention_params &p, Tile tile, int unit, int row) {
    return {tile.query + unit * queries_of_unit(p) + row, tile.head};
}
//$ if split_keys > 0

// Returns the first part of the Q tile that holds a row.
__device__ __forceinline__ Tile tile_of_row(const attention_params &p, int batch, const Row &row) {
    return {row.query / queries_of_tile(p) * queries_of_tile(p), row.head, quotient(row.head, quotient(p.heads, p.kv_heads)), batch, 0};
}
//$ end
