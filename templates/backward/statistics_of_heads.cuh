//$ needs clears_loaded nan_numbers algorithm vector_sums dq_width dq_ordered row_numbers most_shares warps_of_item

// Rows of queries, head by head.
__device__ __forceinline__ float *row_dots(const attention_params &p, long long index) {
    return static_cast<float *>(p.workspace) + index * padded_queries(p);
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

//$ if clears_loaded
// After them, a byte for each four queries, which tells of NaN. There is room for 16 times as many.
__device__ __forceinline__ unsigned char *row_nan(const attention_params &p, int index) {
    return reinterpret_cast<unsigned char *>(dq_sums(p, static_cast<long long>(p.batch) * p.heads * (padded_queries(p) / 64))) +
           static_cast<long long>(index) * (padded_queries(p) / 4);
}
//$ end
//$ if algorithm == flash_async
// At the end, for each launch: the number of items that its blocks have taken.
__device__ __forceinline__ int *item_counter(const attention_params &p, int launch) {
    const long long rows = static_cast<long long>(p.batch) * p.heads * padded_queries(p);
    return reinterpret_cast<int *>(dq_sums(p, rows / 64) + NAN_NUMBERS * rows) + launch;
}
//$ end
//$ if clears_loaded
// Behind these counters: NAN_FOUND if there is a NaN in LSE or dO, any other number if not. So nothing has to clear first what the memory
// happens to hold; the last launch sets the number to 0. If it held NAN_FOUND by chance, producers would look for NaN in vain.
constexpr int NAN_FOUND = 0x4e614e21; // "NaN!"
__device__ __forceinline__ int *nan_found(const attention_params &p) { return item_counter(p, 2); }
//$ end
//$ if most_shares > 0
// Behind 16 bytes of these: for each warp of an item that is computed in parts, the number of parts that it has stored. The sums of the
// parts follow (backward/parts.cuh).
constexpr int PART_COUNTERS = 2 * MOST_SHARES * WARPS_OF_ITEM;
__device__ __forceinline__ int *part_counters(const attention_params &p) { return item_counter(p, 0) + 4; }
//$ end
