//$ needs head_dim_v columns_v rows_aligned
//$ include "store/elements.cuh" if not rows_aligned

// Stores a unit's rows of O, divided by l, from registers.
__device__ __forceinline__ void store_rows(const Consumer &c, const Unit &unit, int, const float (&scale)[2]) {
    const attention_params &p = unit.p;
    //$ if not rows_aligned
    if (HEAD_DIM_V % 8 != 0)
        return store_elements(c, unit, scale);
    //$ end
#pragma unroll
    for (int r = 0; r < 2; r++) {
        Row at = unit.at(unit.row() + 8 * r);
        float *to = static_cast<float *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                    at.query * p.o_row_stride + unit.lane % 4 * 2;
        if (at.query < p.len_q)
#pragma unroll
            for (int i = 0; i < COLUMNS_V / 8; i++) {
                to[8 * i] = c.o[4 * i + 2 * r] * scale[r];
                to[8 * i + 1] = c.o[4 * i + 2 * r + 1] * scale[r];
            }
    }
}

// Stores columns `column` and `column` + 1 of row `line`.
__device__ __forceinline__ void store_pair(const Consumer &, const Unit &unit, int, int line, int column, float low, float high) {
    const attention_params &p = unit.p;
    const Row at = unit.at(line);
    float *to = static_cast<float *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                  at.query * p.o_row_stride + column;
    if (at.query >= p.len_q)
        return;
    //$ if rows_aligned
    *reinterpret_cast<float2 *>(to) = make_float2(low, high);
    //$ else
    if (column < HEAD_DIM_V)
        to[0] = to_output(low);
    if (column + 1 < HEAD_DIM_V)
        to[1] = to_output(high);
    //$ end
}
