//$ needs scheduler cluster pack_gqa shared_bytes block_threads tile_rows in_pairs layout
//$ if scheduler == per_tile
//$ launch attention_flash_async grid (len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ elif pack_gqa == 1
//$ launch attention_flash_async grid min((len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ else
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch * key_parts, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ end
//$ if in_pairs
//$ include "work/pairs_or_tiles.cuh"
//$ else
//$ include "work/tiles_of_head.cuh"
//$ end
//$ include "work/item_of_parts.cuh"

//$ if not in_pairs
// The items of this block.
struct TileQueue {
    int item, items; // of all blocks; an item is a part of a tile

    __device__ __forceinline__ bool empty() const { return item >= items; }
    __device__ __forceinline__ void advance() { item += workers(); }
};

//$ end
// K/V tiles may come in parts: then an item is a part of a tile. Where they do not, it may be a pair of tiles.
__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    //$ if in_pairs
    return p.splits == 1 && wants_pairs(p) ? queue_of_pairs(p) : queue_of_single(items_of_parts(p));
    //$ else
    return {worker(), items_of_parts(p)};
    //$ end
}

// Take the tile at the front off the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    //$ if in_pairs
    if (queue.paired && !queue.empty())
        return next_of_pairs(p, queue);
    //$ end
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
