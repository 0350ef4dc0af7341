//$ needs scheduler cluster pack_gqa shared_bytes block_threads tile_rows layout
//$ launch attention_flash_async grid (len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts * cluster block block_threads shared shared_bytes cluster cluster dependent if scheduler == per_tile
//$ launch attention_flash_async grid min((len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent if scheduler != per_tile and pack_gqa == 1
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent if scheduler != per_tile and pack_gqa == 0
//$ include "work/tiles_of_head.cuh"
//$ include "work/item_of_parts.cuh"

// The items of this block.
struct TileQueue {
    int item, items; // next item and number of items, over all blocks; an item is a part of a tile

    __device__ __forceinline__ bool empty() const { return item >= items; }
    __device__ __forceinline__ void advance() { item += workers(); }
};

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) { return {worker(), items_of_parts(p)}; }

// Takes the tile at the front of the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    while (!queue.empty()) {
        const Tile tile = tile_of_item(p, queue.item);
        queue.advance();
        //$ if layout == dense
        if (has_part(p, tile))
            return tile;
        //$ else
        return tile; // the lengths of its sequence say whether there is such a part
        //$ end
    }
    return {-1, 0, 0, 0, 0};
}
