//$ needs vector_sums dq_width dq_ordered row_numbers

// Rows of queries, head by head.
__device__ __forceinline__ long long first_row(const attention_params &p, long long index) { return index * padded_queries(p); }
__device__ __forceinline__ long long all_rows(const attention_params &p) { return first_row(p, static_cast<long long>(p.batch) * p.heads); }
__device__ __forceinline__ float *row_dots(const attention_params &p, long long index) {
    return static_cast<float *>(p.workspace) + first_row(p, index);
}
__device__ __forceinline__ float *row_lse2(const attention_params &p, long long index) {
    return row_dots(p, static_cast<long long>(p.batch) * p.heads + index);
}
//$ if dq_ordered
// Then, in a row as long, the numbers of key tiles whose dQ has been added: one for each consumer's part of a step, in the places of the
// step's queries.
__device__ __forceinline__ int *key_tiles_added(const attention_params &p, long long row) {
    return reinterpret_cast<int *>(row_lse2(p, static_cast<long long>(p.batch) * p.heads)) + row;
}
//$ end

// The sums of dQ follow: of 64 queries (DQ_WIDTH / 8, 128, 4), as the threads of four warps hold an accumulator, four //$ if vector_sums
// numbers at a time. tile: the place of their first query in the rows above, / 64. //$ if vector_sums
// The sums of dQ follow: of 64 queries (DQ_WIDTH / 8, 4, 128), as the threads of four warps hold an accumulator, one number at a //$ else
// time. tile: the place of their first query in the rows above, / 64. //$ if not vector_sums
__device__ __forceinline__ int tile_of_query(const attention_params &p, int index, int query) {
    return index * (padded_queries(p) / 64) + query / 64;
}
__device__ __forceinline__ float *dq_sums(const attention_params &p, long long tile) {
    return row_lse2(p, (ROW_NUMBERS - 1ll) * p.batch * p.heads) + tile * (64 * DQ_WIDTH);
}
