//$ needs cluster pack_gqa shared_bytes block_threads tile_rows
//$ launch attention_flash_async grid min((len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent if pack_gqa == 1
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent if pack_gqa == 0
//$ include "work/pairs_then_tiles.cuh"
//$ include "work/item_of_parts.cuh"

// If K/V tiles are split into parts, an item is a part of a Q tile. Otherwise, Q tiles come in pairs.
__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    return p.splits == 1 ? pairs_then_tiles(p) : queue_of(p, 0, items_of_parts(p));
}

// Takes the tile at the front of the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.pair < queue.pairs)
        return next_of_pairs(p, queue);
    while (!queue.empty()) {
        const Tile tile = p.splits == 1 ? tile_behind_pairs(p, queue) : tile_of_item(p, queue.item);
        queue.advance();
        if (has_part(p, tile))
            return tile;
    }
    return {-1, 0, 0, 0, 0};
}
