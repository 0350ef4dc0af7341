//$ needs bias_stages
//$ include "fragment/weigh_on_growth.cuh"

// S of the tile that is prepared -> weights. `first`: of its rows.
__device__ __forceinline__ void weigh_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    weigh_on_growth(c, first);
    //$ if bias_stages > 0
    bias_done(c.score, c.p, c.shared);
    //$ end
}
