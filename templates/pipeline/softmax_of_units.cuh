//$ needs row_tiles folded mask_tiles bias_stages
//$ include "fragment/softmax_on_growth.cuh"

// Prepares the rows before m changes. What can be recomputed is not kept in registers from round to round.
__device__ __forceinline__ void begin_rescaling(Rows &rows, float c) {
    rows.keep[0] = rows.keep[1] = 1;
    //$ if not folded
    rows.far = is_far(rows, c);
    //$ end
}

// For each unit, S of a K/V tile -> weights P; rescales O for them.
__device__ __forceinline__ void softmax_units(UnitRows (&units)[ROW_TILES], Weights (&p)[ROW_TILES], bool first) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        begin_rescaling(units[r].rows, units[r].c);
        softmax_on_growth(units[r], first);
        rescale(units[r].o, units[r].rows);
        keep_weights(units[r].s, p[r]);
    }
}
//$ if bias_stages > 0

// Sets the bias that the score adds to the next tile.
__device__ __forceinline__ void set_bias(UnitRows (&units)[ROW_TILES], const BiasTile &bias) {
    const SharedAddress first = rows_of_warp(bias);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        units[r].score.rows = BiasTile::beyond(first, 64 * r, 0);
}
//$ end

__device__ __forceinline__ void prepare_units(UnitRows (&units)[ROW_TILES]) {
    //$ if mask_tiles == intervals
#pragma unroll
    for (int r = 1; r < ROW_TILES; r++)
        units[r].walk = units[0].walk; // all units visit the same tiles, and one walk takes fewer registers
    //$ end
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        units[r].prepare();
    //$ if mask_tiles == bitmap and row_tiles == 2
    if (!units[0].walk.whole || !units[1].walk.whole)
        set_seen<2>({&units[0].unit, &units[1].unit}, units[0].next, {&units[0].seen, &units[1].seen});
    //$ elif mask_tiles == bitmap
    if (!units[0].walk.whole)
        set_seen<1>({&units[0].unit}, units[0].next, {&units[0].seen});
    //$ end
}
