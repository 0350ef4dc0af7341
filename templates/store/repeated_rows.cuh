//$ needs head_dim_v store
//$ include "fragment/repeat_rows.cuh"

// Stores recomputed rows over those that store_rows has stored.
__device__ __forceinline__ void store_again(const Consumer &c, const Unit &unit, int stage, unsigned again) {
    const attention_params &p = unit.p;
    __syncwarp();
#pragma unroll 1
    for (; again; again &= again - 1) {
        int bit = __ffs(static_cast<int>(again)) - 1, line = warp_index() % 4 * 16 + bit / 4 + bit % 4 * 8;
        Row to = unit.at(line);
        if (to.query >= p.len_q)
            continue;
        RepeatedRow done = repeat_row(p, unit.tile, to, c.c);
        float inverse = done.sum == 0 ? 1 : reciprocal_approx(done.sum);
        if (unit.lane == 0)
            store_lse(unit, to, done.max, done.sum);
        //$ if store == direct
        Output *o = static_cast<Output *>(p.o) + unit.tile.batch * p.o_batch_stride + to.head * p.o_head_stride +
                    to.query * p.o_row_stride;
        //$ end
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int column = unit.lane + 32 * i;
            if (column < HEAD_DIM_V)
                //$ if store == tma
                c.shared.q[stage][c.index][i / 2][line][(column / 8 ^ line) % 8 * 8 + column % 8] =
                    to_output(done.o[i] * inverse);
            //$ else
                o[column] = to_output(done.o[i] * inverse);
            //$ end
        }
    }
}
