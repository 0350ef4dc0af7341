//$ include "work/tiles_of_head.cuh"

// Under a causal mask the Q tiles of a head need unlike numbers of K/V tiles. A work item is a pair of tiles of one head, the one
// with the most keys left and the one with the fewest: all pairs cost the same, so blocks with equally many items end at the same
// time. Where there are so few that a pair each would leave SMs idle, an item is a single tile.

__device__ __forceinline__ int pairs_of_head(const attention_params &p) {
    return (tiles_of_head(p) + 1) / 2;
}

// Do pairs end sooner than single tiles, heaviest first? By the K/V tiles of the block that ends last. With single tiles in two
// rounds, the block with the heaviest first tile has the lightest second one, or none.
__device__ __forceinline__ bool wants_pairs(const attention_params &p) {
    const int heads = tile_heads(p) * p.batch, tiles = tiles_of_head(p), pairs = pairs_of_head(p), blocks = workers();
    const long long most = tiles_of_walk(p, tile_of(p, 0, tiles - 1)), least = tiles_of_walk(p, tile_of(p, 0, 0));
    const int rounds = (tiles * heads + blocks - 1) / blocks;
    long long longest = rounds * most;
    if (rounds == 2)
        longest = max(most, longest - (most - least) * (2 * blocks - 1) / (tiles * heads));
    return (pairs * heads + blocks - 1) / blocks * (most + least) <= longest;
}

// The items of this block.
struct TileQueue {
    int item, items; // of all blocks; an item is a pair of tiles, or a tile
    int step;        // to this block's next item
    bool paired;
    bool second; // of a pair

    __device__ __forceinline__ bool empty() const { return item >= items; }
    __device__ __forceinline__ void advance() {
        item += step;
        step = 2 * workers() - step;
    }
};

// Pairs are dealt out in rounds; of single items every other round goes backwards, from the last block to the first.
__device__ __forceinline__ TileQueue queue_of_pairs(const attention_params &p) {
    return {worker(), pairs_of_head(p) * tile_heads(p) * p.batch, workers(), true, false};
}
__device__ __forceinline__ TileQueue queue_of_single(int items) {
    return {worker(), items, 2 * (workers() - worker()) - 1, false, false};
}

// Take a tile of the pair at the front off the queue, or the tile there.
__device__ __forceinline__ Tile next_of_pairs(const attention_params &p, TileQueue &queue) {
    const Place place = place_of(p, queue.paired ? pairs_of_head(p) : tiles_of_head(p), queue.item);
    const int last = tiles_of_head(p) - 1 - place.order, tile = queue.second ? place.order : last;
    queue.second = queue.paired && !queue.second && tile != place.order; // the middle tile has no partner
    if (!queue.second)
        queue.advance();
    return tile_of(p, place.head, tile);
}
