//$ needs mask split_keys block_n plain_scores folded
//$ include "fragment/scores_from_memory_16bit.cuh"

// Recomputes the products of the tile, and P of them with the maxima of the tile.
__device__ __forceinline__ void repeat_softmax(Consumer &c, bool first) {
    scores_from_memory<BLOCK_N>(c.s, c.unit, c.next * BLOCK_N);
    if (first) c.begin_rows(); // m is of the same products, summed in another order //$ if split_keys > 0 and mask == none and plain_scores
    set_rests(c.score.rest, c.unit, c.next, c.rows, true); //$ if folded
    c.online_softmax<true>(masked_unsearched(c, first), first, true, c.tile_sum);
    c.raises.count = Raises::MANY;
}
