//$ needs mask split_keys block_n bias_stages plain_scores folded dropout
//$ include "fragment/scores_from_memory_16bit.cuh"
//$ include "fragment/sums_in_range.cuh"

// S of the prepared tile -> P. `first`: the first K/V tile of the rows. m is fixed unless some rows may have none; the row sum
// shows whether P is in range. Each path has its own code: ptxas would not overlap the usual one otherwise.
__device__ __forceinline__ void softmax_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    //$ if plain_scores
    const bool search = c.is_masked(first) || c.raises.are_many() && lacks_max(c.rows); // some rows may have no m yet
    const bool masked = false;                                                          // no mask on the usual path
    //$ else
    const bool search = c.search, masked = c.is_masked(first);
    //$ end
    const bool usual = !search && !c.raises.are_many();                //$ if folded
    const bool usual = !search && !c.raises.are_many() && !c.rows.far; //$ else
    if (usual)
        c.online_softmax<false>(masked, first, false, c.tile_sum);
    else
        c.online_softmax<true>(c.is_masked(first), first, search, c.tile_sum);
    c.unsure = usual;
}

// P of the tile with its maxima, from products that are computed once more.
__device__ __forceinline__ void repeat_softmax(Consumer &c, bool first) {
    scores_from_memory<BLOCK_N>(c.s, c.unit, c.next * BLOCK_N);
    //$ if split_keys > 0 and mask == none and plain_scores
    if (first)
        c.begin_rows(); // m is of the same products in another order of their sums
    //$ end
    set_rests(c.score.rest, c.unit, c.next, c.rows, true); //$ if folded
    c.online_softmax<true>(false, first, true, c.tile_sum);              //$ if plain_scores
    c.online_softmax<true>(c.is_masked(first), first, true, c.tile_sum); //$ else
    c.raises.count = Raises::MANY;
}

// Adds the row sums of the tile to l. Where they show that P has outgrown m, first raises m: to the largest P, or where that is not
// in the range of fp32, by computing S again. From the second time in a Q tile on m follows the maxima of all later tiles. The caller
// has issued the MMAs and packed P, so that they do not wait for the sums.
__device__ __forceinline__ void accumulate_row_sum(Consumer &c, bool first) {
    if (c.unsure && !within_range(c.rows, c.tile_sum, USUAL_SUM)) {
        //$ if dropout == 0
        if (within_fp32(c.rows, c.tile_sum)) {
            raise_max_to_weights(c.s, c.rows, c.tile_sum, c.c);
            c.raises.add(c.step);
        } else {
            repeat_softmax(c, first);
        }
        //$ else
        repeat_softmax(c, first); // P lacks what was dropped, which may be the largest
        //$ end
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
    }
    c.rows.sum[0] += c.tile_sum[0], c.rows.sum[1] += c.tile_sum[1];
    bias_done(c.score, c.p, c.shared); //$ if bias_stages > 0
}
