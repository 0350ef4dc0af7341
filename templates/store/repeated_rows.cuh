//$ needs head_dim_v split_keys
//$ include "fragment/repeat_rows.cuh"

// Stores the recomputed rows of the warp over those that store_rows has stored.
__device__ __forceinline__ void store_again(const Consumer &c, const Unit &unit, int stage, const float (&scale)[2]) {
    __syncwarp(); // what other lanes have stored is overwritten
    int first, end;
    keys_of_warp(unit, first, end);
#pragma unroll 1
    for (int column = 0; column < HEAD_DIM_V; column += PASS) {
        float o[PASS / 2];
        repeat_pass(o, unit, c.rows, c.c, first, end, column);
        //$ if split_keys > 0
        if (unit.p.splits > 1) {
            store_part(unit, column, o);
            continue;
        }
        //$ end
#pragma unroll
        for (int i = 0; i < PASS / 8; i++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                if (column + 8 * i < HEAD_DIM_V)
                    store_pair(c, unit, stage, unit.row() + 8 * r, column + 8 * i + unit.lane % 4 * 2,
                               o[4 * i + 2 * r] * scale[r], o[4 * i + 2 * r + 1] * scale[r]);
    }
}
