//$ needs cluster pack_gqa shared_bytes block_threads tile_rows
//$ if pack_gqa == 1
//$ launch attention_flash_async grid min(len_q * kv_heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster
//$ else
//$ launch attention_flash_async grid min(((len_q + tile_rows - 1) / tile_rows + 1) / 2 * heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster
//$ end
//$ include "work/tiles_of_head.cuh"

// The Q tiles of this block. Under a causal mask a work item is a pair of tiles of one head, the one with the most keys left and
// the one with the fewest: all pairs cost the same, so blocks with equally many items end at the same time.
struct TileQueue {
    int item, items; // of all blocks
    bool second;     // of a pair

    __device__ __forceinline__ bool empty() const { return item >= items; }
};

__device__ __forceinline__ int pairs_of_head(const attention_params &p) {
    return (tiles_of_head(p) + 1) / 2;
}

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    return {worker(), pairs_of_head(p) * tile_heads(p) * p.batch, false};
}

// Take the tile at the front off the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.empty())
        return {-1, 0, 0, 0};
    const Place place = place_of(p, pairs_of_head(p), queue.item);
    const int last = tiles_of_head(p) - 1 - place.order, tile = queue.second ? place.order : last;
    const bool more = !queue.second && tile != place.order; // the middle tile has no partner
    queue.second = more;
    if (!more)
        queue.item += workers();
    return tile_of(p, place.head, tile);
}
