//$ needs row_tiles folded
//$ include "fragment/softmax_on_growth.cuh"

// S of a tile of keys -> weights P, and O rescaled for them, of each unit.
__device__ __forceinline__ void softmax_units(UnitRows (&units)[ROW_TILES], Weights (&p)[ROW_TILES], bool first) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        Rows &rows = units[r].rows; // what can be found again is not kept in registers from round to round
        rows.keep[0] = rows.keep[1] = 1;
        //$ if not folded
        rows.far = is_far(rows, units[r].c);
        //$ end
        softmax_on_growth(units[r], first);
        rescale(units[r].o, rows);
        keep_weights(units[r].s, p[r]);
    }
}
__device__ __forceinline__ void prepare_units(UnitRows (&units)[ROW_TILES]) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        units[r].prepare();
}
