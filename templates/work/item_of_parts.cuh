// Work items are parts of Q tiles: the first part of all tiles, then the second part of all, and so on.

__device__ __forceinline__ int tiles_of_all_heads(const attention_params &p) { return tiles_of_head(p) * all_heads(p); }
__device__ __forceinline__ int items_of_parts(const attention_params &p) { return tiles_of_all_heads(p) * p.splits; }

__device__ __forceinline__ Tile tile_of_item(const attention_params &p, unsigned item) {
    const unsigned tiles = tiles_of_head(p), all = tiles_of_all_heads(p);
    const Place place = place_of(p, all_heads(p), tiles, item % all);
    Tile tile = tile_of(p, place.head, tiles - 1 - place.order);
    tile.split = item / all;
    return tile;
}

// True if there is such a part. Q tiles that need few K/V tiles have fewer parts than others.
__device__ __forceinline__ bool has_part(const attention_params &p, const Tile &tile) {
    return tile.split == 0 || tile.split < parts_of(p, tiles_of_walk(p, tile));
}
