//$ needs dropout nonfinite_values store

// The epilogue of a unit: O = O / l,  LSE = m scale + ln l.
// Dropout has kept 1 - dropout_p of the weights. O is divided by that, too. //$ if dropout == 1
__device__ __forceinline__ void finish(const Consumer &c, const Unit &unit, int stage) {
    const Rows &rows = c.rows;
    const bool again = wants_repeat(c.o, rows); //$ if nonfinite_values
    float sum[2], inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = rows.sum[r] + __shfl_xor_sync(0xffffffffu, rows.sum[r], 1); // l over the four lanes of the row
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        inverse[r] = sum[r] == 0 ? 1 : unit.p.dropout_factor * reciprocal_approx(sum[r]); // a row that saw no key stays 0 //$ if dropout == 1
        inverse[r] = sum[r] == 0 ? 1 : reciprocal_approx(sum[r]);                         // a row that saw no key stays 0 //$ else
    }
    store_unit(c, unit, stage, sum, inverse);
    if (again && values_are_suspect(unit)) store_again(c, unit, stage, inverse); //$ if nonfinite_values
    hand_over_rows(c, stage); //$ if store == tma
}
