//$ needs clears_loaded nan_numbers algorithm vector_sums dq_width dq_ordered row_numbers rows_padded

// As in packed tensors, sequences follow one another, but each starts at a multiple of ROWS_PADDED.
__device__ __forceinline__ int rows_of_head(const attention_params &p) { return (p.total_q / ROWS_PADDED + p.batch) * ROWS_PADDED; }
__device__ __forceinline__ long long first_row(const attention_params &p, int index) {
    const int batch = index / p.heads, head = index - batch * p.heads;
    return static_cast<long long>(head) * rows_of_head(p) + (p.first_q / ROWS_PADDED + batch) * ROWS_PADDED;
}
__device__ __forceinline__ float *row_dots(const attention_params &p, int index) {
    return static_cast<float *>(p.workspace) + first_row(p, index);
}
__device__ __forceinline__ float *row_lse2(const attention_params &p, int index) {
    return row_dots(p, index) + static_cast<long long>(p.heads) * rows_of_head(p);
}
//$ if dq_ordered
// Then, in a row as long, the numbers of key tiles whose dQ has been added: one for each consumer's part of a step, in the places of the
// step's queries.
__device__ __forceinline__ int *key_tiles_added(const attention_params &p, long long row) {
    return static_cast<int *>(p.workspace) + 2ll * p.heads * rows_of_head(p) + row;
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
    return static_cast<float *>(p.workspace) + static_cast<long long>(p.heads) * rows_of_head(p) * ROW_NUMBERS + tile * (64 * DQ_WIDTH);
}

//$ if clears_loaded
// After them, a byte for each four queries, which tells of NaN. There is room for 16 times as many.
__device__ __forceinline__ unsigned char *row_nan(const attention_params &p, int index) {
    return reinterpret_cast<unsigned char *>(dq_sums(p, static_cast<long long>(p.heads) * rows_of_head(p) / 64)) + first_row(p, index) / 4;
}
//$ end
//$ if algorithm == flash_async
// At the end, for each launch: the number of items that its blocks have taken.
__device__ __forceinline__ int *item_counter(const attention_params &p, int launch) {
    const long long rows = static_cast<long long>(p.heads) * rows_of_head(p);
    return reinterpret_cast<int *>(dq_sums(p, rows / 64) + NAN_NUMBERS * rows) + launch;
}
//$ end
//$ if clears_loaded
// Behind these counters: NAN_FOUND if there is a NaN in LSE or dO, any other number if not. So nothing has to clear first what the memory
// happens to hold; the last launch sets the number to 0. If it held NAN_FOUND by chance, producers would look for NaN in vain.
constexpr int NAN_FOUND = 0x4e614e21; // "NaN!"
__device__ __forceinline__ int *nan_found(const attention_params &p) { return item_counter(p, 2); }
//$ end
