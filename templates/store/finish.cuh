//$ needs dropout strange_values store split_keys algorithm page_size

// The epilogue of a unit: O = O / l,  LSE = m scale + ln l.
// Dropout has left 1 - dropout_p of the weights, by which O is divided, too. //$ if dropout == 1
__device__ __forceinline__ void finish(const Consumer &c, const Unit &unit, int stage) {
    const Rows &rows = c.rows;
    const bool again = wants_repeat(c.o, rows); //$ if strange_values
    float sum[2], inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = rows.sum[r] + __shfl_xor_sync(0xffffffffu, rows.sum[r], 1); // l over the four lanes of the row
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        inverse[r] = sum[r] == 0 ? 1 : unit.p.dropout_factor * reciprocal_approx(sum[r]); // a row that saw no key stays 0 //$ if dropout == 1
        inverse[r] = sum[r] == 0 ? 1 : reciprocal_approx(sum[r]);                         // a row that saw no key stays 0 //$ else
    }
    bool upper = unit.lane % 4 == 0;
    //$ if split_keys > 0
    const bool in_parts = unit.p.splits > 1; // then the second launch divides
    if (in_parts) {
        inverse[0] = inverse[1] = 1;
        if (unit.lane % 4 < 2) // one row a lane
            store_state(unit, unit.at(upper ? unit.row() : unit.row() + 8), upper ? rows.max[0] : rows.max[1],
                        upper ? sum[0] : sum[1]);
        store_part(unit, c.o);
    } else {
        if (unit.lane % 4 < 2)
            store_lse(unit, unit.at(upper ? unit.row() : unit.row() + 8), upper ? rows.max[0] : rows.max[1],
                      upper ? sum[0] : sum[1]);
        store_rows(c, unit, stage, inverse);
    }
    //$ else
    if (unit.lane % 4 < 2) // one row a lane
        store_lse(unit, unit.at(upper ? unit.row() : unit.row() + 8), upper ? rows.max[0] : rows.max[1],
                  upper ? sum[0] : sum[1]);
    store_rows(c, unit, stage, inverse);
    //$ end
    //$ if strange_values
    if (again) // perhaps for values that are in a page and of no sequence //$ if algorithm == flash_async and page_size > 0
    if (again && values_want_care(unit.p, unit.tile, unit.index))          //$ else
        store_again(c, unit, stage, inverse);
    //$ end
    //$ if store == tma
    fence_async();
    barrier_arrive(&c.shared.q_empty[stage][c.index]);
    //$ end
}
