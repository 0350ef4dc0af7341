//$ needs mask block_n most_shares
//$ include "backward/l2_cache.cuh"
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"

// If blocks took only whole items, most of them would wait at the end for those that took one more. So the steps of the last items
// are divided into equal shares, one for each block (Stream-K: Osama et al., PPoPP 2023, section 4). A share may begin and end within an
// item. Such an item is computed in parts, by several blocks, and its last part adds the sums of all (backward/parts.cuh).

// What an item costs besides its steps, in steps: it loads K and V, and stores dK and dV.
constexpr int ITEM_START = 3;
// What the parts of an item cost more than the whole item, in steps: they start more often, and store and add sums.
constexpr int COST_OF_PARTS = 6;
constexpr int MOST_SHARED_ITEMS = 2; // per block: more items than that are even enough, since the longest come first //$ if mask == causal

struct alignas(16) Shares {
    int whole; // number of items before the shared ones
    int steps; // of a share
    int total; // steps of all shared items
    int start; // steps that stand for the start of an item
};

// Returns the number of steps over the queries that see keys of a tile.
__device__ __forceinline__ int steps_of_tile(const attention_params &p, int tile) {
    return p.heads / p.kv_heads * steps_of_head(p, tile * BLOCK_N);
}

// Divides the work of a launch. Tile 0 is the longest of a head.
__device__ __forceinline__ Shares shares_of(const attention_params &p) {
    const int tiles = (p.len_kv + BLOCK_N - 1) / BLOCK_N, heads = p.batch * p.kv_heads, items = heads * tiles;
    const int blocks = min(static_cast<int>(gridDim.x), MOST_SHARES), longest = ITEM_START + steps_of_tile(p, 0);
    //$ if mask == causal
    if (items > MOST_SHARED_ITEMS * blocks)
        return {items, 1, 0, 0};
    const int shared = items;
    int total = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++)
        total += heads * (ITEM_START + steps_of_tile(p, tile));
    //$ else
    const int shared = items < blocks ? items : items % blocks; // all blocks end their last whole item together
    const int total = shared * longest;
    //$ end
    const int steps = (total + blocks - 1) / blocks;
    // Blocks that begin at different steps read different queries. If Q, dO and the sums of dQ do not stay in the L2 cache, steps take up
    // to 1.4 times as long.
    const bool stays_in_l2 = bytes_of_queries(p, shared / tiles + 1ll) <= L2_BYTES;
    //$ if mask != causal
    // So all items have equal parts then, if there are blocks for two or more: blocks with the same part read the same queries.
    const int parts = shared > 0 ? blocks / shared : 0;
    if (!stays_in_l2 && parts > 1) {
        const int of_item = longest - ITEM_START, of_part = (of_item + parts - 1) / parts;
        return {items - shared, of_part, shared * parts * of_part, parts * of_part - of_item};
    }
    //$ end
    // Unequal shares must then save a quarter of the steps of the block that would have the most.
    const int alone = max(longest, steps);
    if (steps + COST_OF_PARTS > (stays_in_l2 ? longest : alone / 4 * 3))
        return {items, 1, 0, 0};
    return {items - shared, steps, total, ITEM_START};
}

// A step of the shared items, counted from 0 in the order of the items.
struct SharedStep {
    int item, step; // number of the item; step of the item
    int steps;      // of the item
};

__device__ __forceinline__ SharedStep find_step(const attention_params &p, const Shares &shares, int step) {
    int item = shares.whole, steps = shares.start + steps_of_tile(p, 0);
    //$ if mask == causal
    // the tiles with the same number in all heads follow one another
    const int heads = p.batch * p.kv_heads;
#pragma unroll 1
    for (int tile = 1; step >= heads * steps; tile++) {
        step -= heads * steps;
        item += heads;
        steps = shares.start + steps_of_tile(p, tile);
    }
    //$ end
    return {item + step / steps, step % steps, steps};
}
