//$ needs head_dim_v

// Stores a unit's rows of O, divided by l, from registers.
__device__ __forceinline__ void store_rows(const Consumer &c, const Unit &unit, int, const float (&scale)[2]) {
    const attention_params &p = unit.p;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        Row at = unit.at(unit.row() + 8 * r);
        float *to = static_cast<float *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                    at.query * p.o_row_stride + unit.lane % 4 * 2;
        if (at.query < p.len_q)
#pragma unroll
            for (int i = 0; i < HEAD_DIM_V / 8; i++) {
                to[8 * i] = c.o[4 * i + 2 * r] * scale[r];
                to[8 * i + 1] = c.o[4 * i + 2 * r + 1] * scale[r];
            }
    }
}

// Columns `column` and the next of row `line`.
__device__ __forceinline__ void store_pair(const Consumer &, const Unit &unit, int, int line, int column, float low, float high) {
    const attention_params &p = unit.p;
    const Row at = unit.at(line);
    float *to = static_cast<float *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                  at.query * p.o_row_stride + column;
    if (at.query < p.len_q)
        *reinterpret_cast<float2 *>(to) = make_float2(low, high);
}
