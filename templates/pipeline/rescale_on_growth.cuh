//$ needs bias_stages
//$ include "fragment/softmax_on_growth.cuh"

// S of the prepared tile -> P. `first`: the first K/V tile of the rows.
__device__ __forceinline__ void softmax_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    softmax_on_growth(c, first);
    bias_done(c.score, c.p, c.shared); //$ if bias_stages > 0
}

__device__ __forceinline__ void accumulate_row_sum(Consumer &, bool) {} // softmax_on_growth has added the row sums
