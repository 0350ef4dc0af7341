//$ needs mask score block_m

// Sets what expressions refer to. Called as late as possible, since ptxas then needs fewer registers.
__device__ __forceinline__ void locate(const attention_params &p, QTile &tile) {
    tile.where = where_is(p, tile.head);
    //$ if mask == custom_mask or score == custom_score
    tile.q_first = position_of(p, tile.row0);
    tile.q_last = position_of(p, min(tile.row0 + BLOCK_M, p.len_q) - 1);
    //$ end
}
