//$ needs block_n bias_stages plain_scores folded
//$ include "fragment/scores_from_memory.cuh"

// S of the prepared tile -> P. `first`: the first K/V tile of the rows. m is fixed unless some rows may have none; the row sum
// shows whether P is in range. Each path has its own code: ptxas would not overlap the usual one otherwise.
__device__ __forceinline__ void weigh_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    //$ if plain_scores
    const bool search = c.is_masked(first) || c.follow && lacks_max(c.rows); // some rows may have no m yet
    const bool masked = false;                                               // no mask on the usual path
    //$ else
    const bool search = c.search, masked = c.is_masked(first);
    //$ end
    //$ if folded
    const bool usual = !search && !c.follow;
    //$ else
    const bool usual = !search && !c.follow && !c.rows.far;
    //$ end
    if (usual)
        c.weigh_scores<false>(masked, first, false, c.tile_sum);
    else
        c.weigh_scores<true>(c.is_masked(first), first, search, c.tile_sum);
    c.unsure = usual;
}

// Where P of the tile is out of range, S is recomputed, and m follows the maximum from then on. This comes after the MMAs are
// issued and P is packed, since nothing else has to wait for the sum then.
__device__ __forceinline__ void check_tile(Consumer &c, bool first) {
    if (c.unsure && !within_range(c.rows, c.tile_sum)) {
        scores_from_memory<BLOCK_N>(c.s, c.unit, c.next * BLOCK_N);
        c.follow = true;
        //$ if folded
        c.set_rests(true);
        //$ end
        //$ if plain_scores
        c.weigh_scores<true>(false, first, true, c.tile_sum);
        //$ else
        c.weigh_scores<true>(c.is_masked(first), first, true, c.tile_sum);
        //$ end
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
    }
    c.rows.sum[0] += c.tile_sum[0], c.rows.sum[1] += c.tile_sum[1];
    //$ if bias_stages > 0
    bias_done(c.score, c.p, c.shared);
    //$ end
    publish_weights(c.weights);
}
