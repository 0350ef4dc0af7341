//$ needs pack_gqa shared_bytes threads tile_rows
//$ launch attention_flash_mma grid (len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch block threads shared shared_bytes dependent if pack_gqa == 1
//$ launch attention_flash_mma grid (len_q + tile_rows - 1) / tile_rows * heads * batch block threads shared shared_bytes dependent if pack_gqa == 0

// A block works on one Q tile. It is computed again at the end, so no registers need to hold it.
__device__ __forceinline__ Tile tile_of_block(const attention_params &p) {
    const int tiles = (p.len_q + queries_of_tile(p) - 1) / queries_of_tile(p);
    const Place place = place_of(p, all_heads(p), tiles, opaque(static_cast<int>(blockIdx.x)));
    return tile_of(p, place.head, tiles - 1 - place.order);
}
