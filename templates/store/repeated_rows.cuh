//$ needs head_dim_v split_keys algorithm page_size
//$ include "fragment/values_want_care.cuh"
//$ include "fragment/repeat_rows.cuh"

// True if a NaN or infinity in V may have reached rows that do not see it.
__device__ __forceinline__ bool values_are_suspect(const Unit &unit) {
    return true; // it may be in a page, but in no sequence      //$ if algorithm == flash_async and page_size > 0
    return values_want_care(unit.p, unit.tile, unit.index);      //$ else
}

// Recomputes the columns of O that are not finite in some row of the warp, and stores them over those that store_rows has stored.
// Where O is finite, no NaN and no infinity was added to it.
__device__ __forceinline__ void store_again(const Consumer &c, const Unit &unit, int stage, const float (&scale)[2]) {
    __syncwarp(); // other lanes have stored what this overwrites
    NonfiniteColumns nonfinite = nonfinite_columns(c.o);
    take_out_nan(nonfinite, unit);
    RepeatedOutput o;
    const unsigned passes = repeat_passes(o, unit, c.rows, c.c, nonfinite);
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        if (!(passes >> pass & 1))
            continue;
#pragma unroll
        for (int i = 0; i < PASS / 8; i += 2)
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int odd = 0; odd < 2; odd++) {
                    const int row = unit.row() + 8 * r, column = pass * PASS + column_of(unit, i, odd);
                    const float low = o[pass][4 * i + 2 * r + odd], high = o[pass][4 * i + 4 + 2 * r + odd];
                    if (column >= HEAD_DIM_V)
                        continue;
                    //$ if split_keys > 0
                    if (unit.p.splits > 1) {
                        store_pair_of_part(unit, row, column, low, high);
                        continue;
                    }
                    //$ end
                    store_pair(c, unit, stage, row, column, low * scale[r], high * scale[r]);
                }
    }
}
