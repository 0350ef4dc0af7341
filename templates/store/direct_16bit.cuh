//$ needs head_dim_v columns_v bfloat16_out rows_aligned
//$ include "store/elements.cuh" if not rows_aligned

// Stores a unit's rows of O, divided by l, from registers. Neighbouring lanes exchange a pair of columns, so that the four lanes
// of a row write 32 contiguous bytes.
__device__ __forceinline__ void store_rows(const Consumer &c, const Unit &unit, int, const float (&scale)[2]) {
    const attention_params &p = unit.p;
    //$ if not rows_aligned
    if (HEAD_DIM_V % 8 != 0 || piece_bytes(p.o, p.o_batch_stride, p.o_head_stride, p.o_row_stride) < 8)
        return store_elements(c, unit, scale);
    //$ end
    bool odd = unit.lane % 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        Row at = unit.at(unit.row() + 8 * r);
        unsigned short *to = static_cast<unsigned short *>(p.o) + unit.tile.batch * p.o_batch_stride +
                             at.head * p.o_head_stride + at.query * p.o_row_stride;
#pragma unroll
        for (int i = 0; i < COLUMNS_V / 8; i += 2) {
            int j = i + 1 < COLUMNS_V / 8 ? i + 1 : i;
            unsigned low = pack<BFLOAT16_OUT>(c.o[4 * i + 2 * r] * scale[r], c.o[4 * i + 2 * r + 1] * scale[r]);
            unsigned high = pack<BFLOAT16_OUT>(c.o[4 * j + 2 * r] * scale[r], c.o[4 * j + 2 * r + 1] * scale[r]);
            unsigned other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
            if (at.query < p.len_q && (j > i || !odd))
                *reinterpret_cast<uint2 *>(to + 8 * (i + odd) + unit.lane % 4 / 2 * 4) =
                    odd ? make_uint2(other, high) : make_uint2(low, other);
        }
    }
}

// Stores columns `column` and `column` + 1 of row `line`.
__device__ __forceinline__ void store_pair(const Consumer &, const Unit &unit, int, int line, int column, float low, float high) {
    const attention_params &p = unit.p;
    const Row at = unit.at(line);
    unsigned short *to = static_cast<unsigned short *>(p.o) + unit.tile.batch * p.o_batch_stride + at.head * p.o_head_stride +
                           at.query * p.o_row_stride + column;
    if (at.query >= p.len_q)
        return;
    //$ if rows_aligned
    *reinterpret_cast<unsigned *>(to) = pack<BFLOAT16_OUT>(low, high);
    //$ else
    if (column < HEAD_DIM_V)
        to[0] = to_output(low);
    if (column + 1 < HEAD_DIM_V)
        to[1] = to_output(high);
    //$ end
}
