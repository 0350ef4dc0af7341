//$ include "params/attention.h"

// Which tiles of queries this block works on, and in which order. Blocks start in the order of their index, each as soon
// as an SM is free, so the order decides who shares the L2 cache and who is left over at the end.
//$ if blocks == resident and mask == causal
// An item of work is a pair of tiles of one head, the one with the most keys left and the one with the fewest: all pairs
// weigh the same, so blocks that take equally many are done at the same time.
//$ let in_pairs = true
//$ else
//$ let in_pairs = false
//$ end

struct Tile {
    int query; // first query; negative: there is no further tile
    int head, kv_head, batch;
};

struct TileQueue {
    int item, items; // of all blocks
    bool second;     // of a pair

    __device__ __forceinline__ bool empty() const { return item >= items; }
};

__device__ __forceinline__ int items_of_head(const attention_params &p) {
    int tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    //$ if in_pairs
    return (tiles + 1) / 2;
    //$ else
    return tiles;
    //$ end
}

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    return {static_cast<int>(blockIdx.x), items_of_head(p) * p.heads * p.batch, false};
}

// The tile at the front, and the queue without it.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.empty())
        return {-1, 0, 0, 0};
    int items = items_of_head(p), group = p.heads / p.kv_heads;
    //$ if tile_order == sections
    // A section: as many heads as have their keys and values in half of the L2; all their items, heaviest first.
    constexpr float SECTION_BYTES = 32 << 20;
    float kv_bytes = 2.0f * (HEAD_DIM + HEAD_DIM_V) * max(p.len_kv, 1);
    int section = static_cast<int>(fminf(fmaxf(SECTION_BYTES / kv_bytes * group, 1), 1.0f * p.heads * p.batch));
    int first = queue.item / (section * items) * section, within = queue.item - first * items;
    int heads = min(section, p.heads * p.batch - first);
    int head = first + within % heads, order = within / heads;
    //$ elif tile_order == heaviest_first
    int heads = p.heads * p.batch, head = queue.item % heads, order = queue.item / heads;
    //$ else
    int head = queue.item / items, order = items - 1 - queue.item % items;
    //$ end
    int tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M, tile = tiles - 1 - order;
    //$ if in_pairs
    if (queue.second)
        tile = order;
    bool pair = tile != order; // the middle one stands alone
    if (!queue.second && pair) {
        queue.second = true;
    } else {
        queue.second = false;
        queue.item += gridDim.x;
    }
    //$ else
    queue.item += gridDim.x;
    //$ end
    return {tile * BLOCK_M, head % p.heads, head % p.heads / group, head / p.heads};
}
