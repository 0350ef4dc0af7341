//$ needs mask
//$ include "backward/l2_cache.cuh"
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/steps_of_items.cuh"

// If blocks took only whole items, most of them would wait at the end for those that took one more. So the steps of the last items
// are divided into equal shares, one for each block (Stream-K: Osama et al., PPoPP 2023, section 4). A share may begin and end within an
// item. Such an item is computed in parts, by several blocks, and its last part adds the sums of all (backward/parts.cuh).
// Or each part of every item has some of the heads that share its keys, and blocks take parts as they take items. //$ if mask == causal

// What the parts of an item cost more than the whole item, in steps: they start more often, and store and add sums.
constexpr int COST_OF_PARTS = 6;

struct alignas(16) Shares {
    int whole; // number of items before the shared ones, or of all parts with some heads //$ if mask == causal
    int whole; // number of items before the shared ones //$ else
    int steps; // of a share
    int total; // steps of all shared items
    int start; // steps that stand for the start of an item
    int parts; // of each of those items: more than one if parts have some of the heads that share keys //$ if mask == causal
};

// True if shares of so many steps are done sooner than items, of which the longest has so many. Blocks that begin at different steps read
// different queries. If Q, dO and the sums of dQ do not stay in the L2 cache, steps take up to 1.4 times as long. So shares must then save
// a quarter of the steps of the block that would have the most.
__device__ __forceinline__ bool suits_shares(int steps, int longest, bool stays_in_l2) {
    return steps + COST_OF_PARTS <= (stays_in_l2 ? longest : max(longest, steps) / 4 * 3);
}
//$ include "backward/shares_causal.cuh" if mask == causal else "backward/shares_full.cuh"

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
