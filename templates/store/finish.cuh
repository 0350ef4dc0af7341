//$ needs mask store

// The epilogue of a unit: O = O / l,  LSE = m scale + ln l.
__device__ __forceinline__ void finish(const Consumer &c, const Unit &unit, int stage) {
    const Rows &rows = c.rows;
    //$ if mask != none
    const bool again = wants_repeat(c.o, rows);
    //$ end
    float sum[2], inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = rows.sum[r] + __shfl_xor_sync(0xffffffffu, rows.sum[r], 1); // l over the four lanes of the row
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        inverse[r] = sum[r] == 0 ? 1 : reciprocal_approx(sum[r]); // a row that saw no key stays 0
    }
    bool upper = unit.lane % 4 == 0;
    if (unit.lane % 4 < 2) // one row a lane
        store_lse(unit, unit.at(upper ? unit.row() : unit.row() + 8), upper ? rows.max[0] : rows.max[1],
                  upper ? sum[0] : sum[1]);
    store_rows(c, unit, stage, inverse);
    //$ if mask != none
    if (again && values_want_care(unit.p, unit.tile, unit.index))
        store_again(c, unit, stage, inverse);
    //$ end
    //$ if store == tma
    fence_async();
    barrier_arrive(&c.shared.q_empty[stage][c.index]);
    //$ end
}
