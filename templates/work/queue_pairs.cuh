//$ needs cluster pack_gqa shared_bytes block_threads tile_rows
//$ if pack_gqa == 1
//$ launch attention_flash_async grid min((len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ else
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster dependent
//$ end
//$ include "work/pairs_then_tiles.cuh"

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) { return pairs_then_tiles(p); }

// Takes the tile at the front of the queue.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.pair < queue.pairs)
        return next_of_pairs(p, queue);
    if (queue.empty())
        return {-1, 0, 0, 0};
    const Tile tile = tile_behind_pairs(p, queue);
    queue.advance();
    return tile;
}
