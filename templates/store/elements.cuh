//$ needs head_dim_v columns_v

// Stores a unit's rows of O, divided by l, from registers, one element at a time: rows may have any alignment.
__device__ __forceinline__ void store_elements(const Consumer &c, const Unit &unit, const float (&scale)[2]) {
    const attention_params &p = unit.p;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        Row at = unit.at(unit.row() + 8 * r);
        Output *to = static_cast<Output *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                     at.query * p.o_row_stride;
        if (at.query < p.len_q)
#pragma unroll
            for (int i = 0; i < COLUMNS_V / 4; i++) {
                const int column = i / 2 * 8 + unit.lane % 4 * 2 + i % 2;
                if (column < HEAD_DIM_V)
                    to[column] = to_output(c.o[i / 2 * 4 + 2 * r + i % 2] * scale[r]);
            }
    }
}
