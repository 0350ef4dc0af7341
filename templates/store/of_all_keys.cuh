// Stores a unit whose sums are over all keys of its rows. `sum`: l; `scale`: the factor by which O becomes the result.
__device__ __forceinline__ void store_unit(const Consumer &c, const Unit &unit, int stage, const float (&sum)[2], float (&scale)[2]) {
    const bool upper = unit.lane % 4 == 0;
    if (unit.lane % 4 < 2) // one row per lane
        store_lse(unit, unit.at(upper ? unit.row() : unit.row() + 8), upper ? c.rows.max[0] : c.rows.max[1],
                  upper ? sum[0] : sum[1]);
    store_rows(c, unit, stage, scale);
}
