//$ needs score
//$ include "fragment/unit.cuh"

// Stores LSE = m + ln l of a row, unless lse is null.
__device__ __forceinline__ void store_lse(const Unit &unit, Row to, float max, float sum) {
    const attention_params &p = unit.p;
    if (p.lse && to.query < p.len_q)
        p.lse[unit.tile.batch * p.lse_batch_stride + to.head * p.lse_head_stride + to.query] =
            sum == 0 ? -INFINITY : max + log2_approx(sum) * LN_2;                  //$ if score == custom_score
            sum == 0 ? -INFINITY : max * fabsf(p.scale) + log2_approx(sum) * LN_2; //$ else
}
