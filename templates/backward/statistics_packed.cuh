//$ needs vector_sums dq_width dq_ordered row_numbers rows_padded

// As in packed tensors, sequences follow one another, but each starts at a multiple of ROWS_PADDED.
__device__ __forceinline__ int rows_of_head(const attention_params &p) { return (p.total_q / ROWS_PADDED + p.batch) * ROWS_PADDED; }
__device__ __forceinline__ long long all_rows(const attention_params &p) { return static_cast<long long>(p.heads) * rows_of_head(p); }
__device__ __forceinline__ long long first_row(const attention_params &p, int index) {
    const int batch = index / p.heads, head = index - batch * p.heads;
    return static_cast<long long>(head) * rows_of_head(p) + (p.first_q / ROWS_PADDED + batch) * ROWS_PADDED;
}
__device__ __forceinline__ float *row_dots(const attention_params &p, int index) {
    return static_cast<float *>(p.workspace) + first_row(p, index);
}
__device__ __forceinline__ float *row_lse2(const attention_params &p, int index) {
    return row_dots(p, index) + all_rows(p);
}
//$ if dq_ordered
// Then, in a row as long, the numbers of key tiles whose dQ has been added: one for each consumer's part of a step, in the places of the
// step's queries.
__device__ __forceinline__ int *key_tiles_added(const attention_params &p, long long row) {
    return static_cast<int *>(p.workspace) + 2 * all_rows(p) + row;
}
//$ end

// The sums of dQ follow: of 64 queries (DQ_WIDTH / 8, 128, 4), as the threads of four warps hold an accumulator, four //$ if vector_sums
// numbers at a time. tile: the place of their first query in the rows above, / 64. //$ if vector_sums
// The sums of dQ follow: of 64 queries (DQ_WIDTH / 8, 4, 128), as the threads of four warps hold an accumulator, one number at a //$ else
// time. tile: the place of their first query in the rows above, / 64. //$ if not vector_sums
__device__ __forceinline__ int tile_of_query(const attention_params &p, int index, int query) {
    return static_cast<int>(first_row(p, index) / 64) + query / 64;
}
__device__ __forceinline__ float *dq_sums(const attention_params &p, long long tile) {
    return static_cast<float *>(p.workspace) + all_rows(p) * ROW_NUMBERS + tile * (64 * DQ_WIDTH);
}
