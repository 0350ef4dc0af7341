//$ needs columns_v mask_tiles tile_rows units layout
//$ workspace min(key_parts - 1, 1) * key_parts * batch * heads * len_q * (4 * columns_v + 8)

// The results of the parts of K/V tiles, in the workspace: O of all parts and rows, not divided by l, then m and l of
// all. The states of parts combine like those of K/V tiles, so nothing is rounded that would not be rounded otherwise.

// Rows are numbered over batches, heads and queries. Every head has room for the largest number of queries.
__device__ __forceinline__ int rows_of_head(const attention_params &p) {
    return p.len_q;     //$ if layout == dense
    return p.max_len_q; //$ else
}
__device__ __forceinline__ long long rows_of_all(const attention_params &p) {
    return static_cast<long long>(p.batch) * p.heads * rows_of_head(p);
}
__device__ __forceinline__ long long row_in_all(const attention_params &p, int batch, const Row &row) {
    return (static_cast<long long>(batch) * p.heads + row.head) * rows_of_head(p) + row.query;
}

// O of the first row of the first part.
__device__ __forceinline__ float *output_of_parts(const attention_params &p) {
    //$ if mask_tiles == bitmap
    const long long lines = static_cast<long long>(p.batch) * p.heads * ((rows_of_head(p) + TILE_ROWS - 1) / TILE_ROWS) * (UNITS + 1);
    return static_cast<float *>(p.workspace) + (lines * map_line_words(p) + 63) / 64 * 64; // after the map
    //$ else
    return static_cast<float *>(p.workspace);
    //$ end
}
__device__ __forceinline__ float *output_of_part(const attention_params &p, int split, long long row) {
    return output_of_parts(p) + (split * rows_of_all(p) + row) * COLUMNS_V;
}
// m and l.
__device__ __forceinline__ float2 *state_of_part(const attention_params &p, int split, long long row) {
    return reinterpret_cast<float2 *>(output_of_parts(p) + p.splits * rows_of_all(p) * COLUMNS_V) + split * rows_of_all(p) + row;
}

__device__ __forceinline__ void store_state(const Unit &unit, const Row &to, float max, float sum) {
    if (to.query < unit.p.len_q)
        *state_of_part(unit.p, unit.tile.split, row_in_all(unit.p, unit.tile.batch, to)) = make_float2(max, sum);
}

// Stores O of a warp's rows from registers.
__device__ __forceinline__ void store_part(const Unit &unit, const float (&o)[COLUMNS_V / 2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const Row at = unit.at(unit.row() + 8 * r);
        float *to = output_of_part(unit.p, unit.tile.split, row_in_all(unit.p, unit.tile.batch, at)) + unit.lane % 4 * 2;
        if (at.query < unit.p.len_q)
#pragma unroll
            for (int i = 0; i < COLUMNS_V / 8; i++)
                *reinterpret_cast<float2 *>(to + 8 * i) = make_float2(o[4 * i + 2 * r], o[4 * i + 2 * r + 1]);
    }
}

// Stores columns `column`, which is even, and `column` + 1 of one of these rows.
__device__ __forceinline__ void store_pair_of_part(const Unit &unit, int row, int column, float low, float high) {
    const Row at = unit.at(row);
    float *to = output_of_part(unit.p, unit.tile.split, row_in_all(unit.p, unit.tile.batch, at)) + column;
    if (at.query < unit.p.len_q)
        *reinterpret_cast<float2 *>(to) = make_float2(low, high);
}
