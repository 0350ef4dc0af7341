//$ needs scheduler cluster pack_gqa shared_bytes block_threads tile_rows
//$ if scheduler == per_tile
//$ launch attention_flash_async grid (len_q + tile_rows - 1) / tile_rows * heads * batch * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ elif pack_gqa == 1
//$ launch attention_flash_async grid min((len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ else
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ end
//$ include "work/tiles_of_head.cuh"

// The Q tiles of this block.
struct TileQueue {
    int item, items; // next item and number of items, over all blocks; an item is a tile

    __device__ __forceinline__ bool empty() const { return item >= items; }
};

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    return {worker(), tiles_of_head(p) * all_heads(p)};
}

// Takes the tile at the front of the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.empty())
        return {-1, 0, 0, 0};
    const int tiles = tiles_of_head(p);
    const Place place = place_of(p, all_heads(p), tiles, queue.item);
    queue.item += workers();
    return tile_of(p, place.head, tiles - 1 - place.order);
}
