//$ needs bias_stages folded
//$ include "fragment/sums_in_range.cuh"

// S of the prepared tile -> P. `first`: the first K/V tile of the rows. m is fixed unless some rows may have none; the row sum
// shows whether P is in range. Each path has its own code; otherwise ptxas would not overlap the usual one.
__device__ __forceinline__ void softmax_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    const bool search = wants_search(c, first), masked = masked_unsearched(c, first);
    const bool usual = !search && !c.raises.are_many();                //$ if folded
    const bool usual = !search && !c.raises.are_many() && !c.rows.far; //$ else
    if (usual)
        c.online_softmax<false>(masked, first, false, c.tile_sum);
    else
        c.online_softmax<true>(c.is_masked(first), first, search, c.tile_sum);
    c.unsure = usual;
}

// Adds the row sums of the tile to l. Where they show that P has outgrown m, first raises m. Once m has been raised often (Raises), it
// follows the maxima of all later tiles. The caller has issued the MMAs and packed P, so they do not wait for the sums.
__device__ __forceinline__ void accumulate_row_sum(Consumer &c, bool first) {
    if (c.unsure && !within_range(c.rows, c.tile_sum, USUAL_SUM)) {
        raise_outgrown(c, first);
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
    }
    c.rows.sum[0] += c.tile_sum[0], c.rows.sum[1] += c.tile_sum[1];
    bias_done(c.score, c.p, c.shared); //$ if bias_stages > 0
}
