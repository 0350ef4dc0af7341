//$ needs layout mask block_n dq_ordered
//$ include "backward/order_of_tiles.cuh"

// A part of an item may have some of the heads that share its keys.

constexpr int FEW_PARTS = 528; // four per multiprocessor: so many are ordered by length, regardless of the head //$ if mask == causal and not dq_ordered

// Returns the tile of part n, as if parts were further heads: they are ordered as tiles of these would be.
__device__ __forceinline__ TileOfHead part_in_order(const attention_params &all, int n, int parts) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads * parts;
    return tile_in_order(all, n, heads, tiles, parts);      //$ if dq_ordered
    return tile_in_order(all, n, heads, tiles, FEW_PARTS);  //$ elif mask == causal
    return tile_in_order(all, n, heads, tiles);             //$ else
}

// Returns the number of a tile of keys among those of all K/V heads.
__device__ __forceinline__ int number_of_tile(const attention_params &all, const attention_params &own, int kv_index, int tile) {
    //$ if layout == ragged
    // a sequence starts at most one tile after the tiles of those before it
    const int batch = kv_index / all.kv_heads, kv_head = kv_index - batch * all.kv_heads;
    return kv_head * (all.total_kv / BLOCK_N + all.batch) + own.first_kv / BLOCK_N + batch + tile;
    //$ else
    return kv_index * ((all.len_kv + BLOCK_N - 1) / BLOCK_N) + tile;
    //$ end
}

// Returns a part of an item. own: the parameters of its sequence.
__device__ __forceinline__ Item part_of_heads(const attention_params &all, const attention_params &own, int kv_index, int tile, int part,
                                              int parts) {
    const int group = all.heads / all.kv_heads;
    return {kv_index, tile * BLOCK_N,
            numbers_of(own), //$ if layout != dense
            part, parts, number_of_tile(all, own, kv_index, tile) * parts, (group + parts - 1) / parts};
}
