//$ needs head_dim head_dim_v
//$ include "work/tiles_of_head.cuh"

// Under a causal mask, the Q tiles of a head need different numbers of K/V tiles. The tiles of most heads are dealt
// out in pairs, the one with the most keys left and the one with the fewest, so all pairs cost the same. In the last
// round, some blocks would have no pair and would idle. So the tiles of the heads of the last rounds are dealt out one
// by one, heaviest first, every other round backwards: then all blocks end within about one short tile of each other.

constexpr unsigned ROUNDS_OF_TILES = 2; // full rounds of pairs that come as single tiles, besides the round that is not full
constexpr float L2_BYTES = 48 << 20;

__device__ __forceinline__ int pairs_of_head(const attention_params &p) {
    return (tiles_of_head(p) + 1) / 2;
}

// Returns how many heads, the first ones, come in pairs. It is all of them, too, if K and V of the others would not
// fit L2, since blocks that go heaviest first read them in every round.
__device__ __forceinline__ unsigned heads_in_pairs(const attention_params &p) {
    const unsigned pairs = pairs_of_head(p), heads = all_heads(p), blocks = workers(), rounds = pairs * heads / blocks;
    const unsigned paired = (max(rounds, ROUNDS_OF_TILES) - ROUNDS_OF_TILES) * blocks / max(pairs, 1);
    const float kv_bytes = 2.0f * (HEAD_DIM + HEAD_DIM_V) * p.len_kv * (heads - paired) * p.kv_heads;
    const bool fits = kv_bytes <= L2_BYTES * tile_heads(p);
    return pairs * heads == rounds * blocks || (paired > 0 && !fits) ? heads : paired;
}

// The items of this block: pairs first, then single tiles or parts of tiles.
struct TileQueue {
    int paired;      // how many heads come in pairs
    int pair, pairs; // next pair; number of pairs of all blocks
    bool second;     // the next tile is the second of its pair
    int item, items; // next item after the pairs; number of items of all blocks
    int step;        // to this block's next item

    __device__ __forceinline__ bool empty() const { return item >= items; }
    __device__ __forceinline__ void advance() {
        item += step;
        step = 2 * workers() - step;
    }
};

// Returns the queue of the pairs of `paired` heads and then `items` items. Both are dealt out in rounds, and every
// other round of items goes backwards. The first items go to the blocks that have no pair in the last round.
__device__ __forceinline__ TileQueue queue_of(const attention_params &p, int paired, int items) {
    const unsigned blocks = workers(), pairs = pairs_of_head(p) * paired, last = pairs % blocks;
    const int place = worker() - last + (worker() < last ? blocks : 0);
    return {paired, worker(), static_cast<int>(pairs), false, place, items, 2 * (workers() - place) - 1};
}

__device__ __forceinline__ TileQueue pairs_then_tiles(const attention_params &p) {
    const int paired = heads_in_pairs(p);
    return queue_of(p, paired, tiles_of_head(p) * (all_heads(p) - paired));
}

// Takes the next tile of the pair at the front of the queue.
__device__ __forceinline__ Tile next_of_pairs(const attention_params &p, TileQueue &queue) {
    const Place place = place_of(p, queue.paired, pairs_of_head(p), queue.pair);
    const int light = place.order, heavy = tiles_of_head(p) - 1 - light, tile = queue.second ? light : heavy;
    queue.second = !queue.second && heavy != light; // the middle tile has no partner
    if (!queue.second)
        queue.pair += workers();
    return tile_of(p, place.head, tile);
}

// Returns the tile of an item, where items are tiles.
__device__ __forceinline__ Tile tile_behind_pairs(const attention_params &p, const TileQueue &queue) {
    const unsigned heads = all_heads(p) - queue.paired, item = queue.item;
    return tile_of(p, queue.paired + item % heads, tiles_of_head(p) - 1 - item / heads);
}
