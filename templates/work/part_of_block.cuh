//$ needs pack_gqa shared_bytes threads tile_rows
//$ launch attention_flash_mma grid (len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch * key_parts block threads shared shared_bytes dependent if pack_gqa == 1
//$ launch attention_flash_mma grid (len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts block threads shared shared_bytes dependent if pack_gqa == 0
//$ include "work/tiles_of_head.cuh"
//$ include "work/item_of_parts.cuh"

// A block works on one part of a Q tile. It is computed again at the end, so no registers need to hold it.
__device__ __forceinline__ Tile tile_of_block(const attention_params &p) {
    return tile_of_item(p, opaque(static_cast<int>(blockIdx.x)));
}
