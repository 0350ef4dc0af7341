//$ needs tile_rows split_keys
//$ include "work/tile.cuh"
//$ include "work/quotient.cuh"

// pack_gqa: a unit holds the rows of all query heads that share a K/V head, head by head, for as many queries as fit; the rows left over
// are padding. So K and V are loaded once for all these heads. If there are more than 64, they do not fit, and a unit holds one of them.
__device__ __forceinline__ int heads_of_group(const attention_params &p) { return quotient(p.heads, p.kv_heads); }
__device__ __forceinline__ int heads_of_tile(const attention_params &p) {
    return heads_of_group(p) <= 64 ? heads_of_group(p) : 1; // as packed_heads in the launch directives
}
__device__ __forceinline__ int queries_of_unit(const attention_params &p) { return quotient(64, heads_of_tile(p)); }
__device__ __forceinline__ int queries_of_tile(const attention_params &p) { return TILE_ROWS / 64 * queries_of_unit(p); }
__device__ __forceinline__ int rows_of_unit(const attention_params &p) {
    return queries_of_unit(p) * heads_of_tile(p);
}

// Returns the number of sets of heads that have Q tiles of their own.
__device__ __forceinline__ int tile_heads(const attention_params &p) { return heads_of_group(p) <= 64 ? p.kv_heads : p.heads; }

// Returns Q tile `tile` of a set of heads; `index` counts sets and batches.
__device__ __forceinline__ Tile tile_of(const attention_params &p, unsigned index, int tile) {
    const unsigned sets = tile_heads(p);
    const int batch = index / sets, head = (index - batch * sets) * heads_of_tile(p);
    return {tile * queries_of_tile(p), head, quotient(head, heads_of_group(p)), batch};
}

__device__ __forceinline__ Row row_of(const attention_params &p, Tile tile, int unit, int row) {
    const int queries = queries_of_unit(p), head = quotient(row, queries);
    return head < heads_of_tile(p) ? Row{tile.query + unit * queries + row - head * queries, tile.head + head} : Row{p.len_q, tile.head};
}
//$ if split_keys > 0

// Returns the first part of the Q tile that holds a row.
__device__ __forceinline__ Tile tile_of_row(const attention_params &p, int batch, const Row &row) {
    const int tile = static_cast<unsigned>(row.query) / queries_of_tile(p), set = quotient(row.head, heads_of_tile(p));
    return {tile * queries_of_tile(p), set * heads_of_tile(p), quotient(row.head, heads_of_group(p)), batch, 0};
}
//$ end
