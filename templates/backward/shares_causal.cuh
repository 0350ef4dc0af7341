//$ needs block_n most_shares heads_of_part l2_bytes
//$ include "backward/l2_cache.cuh"
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/steps_of_items.cuh"

constexpr int MOST_SHARED_ITEMS = 2; // per block: more items than that are even enough, since the longest come first
constexpr int COST_OF_PART = 5; // what a part with some of the heads costs besides its steps, in steps

// True if items in parts, which have some of the heads each, are done sooner than in `now` steps of every block. steps: of all items.
// Items differ in length, so blocks are soon at different heads. If the queries of so many heads do not stay in the L2 cache, whole items
// take a quarter more time, as measured. At the end, blocks wait for about a quarter of the longest part.
__device__ __forceinline__ bool suits_parts(const attention_params &p, int parts, int blocks, long long steps, int now) {
    const int items = p.batch * p.kv_heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const bool misses = p.heads / p.kv_heads >= 2 * HEADS_OF_PART && bytes_of_queries(p, p.batch * p.heads) > L2_BYTES;
    const long long costs = static_cast<long long>(items) * (parts * COST_OF_PART - ITEM_START);
    const long long then = (steps + costs) / blocks + (COST_OF_PART + steps_of_tile(p, 0) / parts) / 4;
    return parts > 1 && 4 * then < (misses ? 5ll : 4ll) * now;
}

// Divides the work of a launch. Tile 0 is the longest of a head.
__device__ __forceinline__ Shares shares_of(const attention_params &p) {
    const int heads = p.batch * p.kv_heads, items = heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int blocks = min(static_cast<int>(gridDim.x), MOST_SHARES), longest = ITEM_START + steps_of_tile(p, 0);
    const int parts = parts_of_heads(p);
    const bool few = items <= min(MOST_SHARED_ITEMS * blocks, LAST_TILES); // find_step() takes all of these to be ordered by length
    if (!few && parts == 1)
        return {items, 1, 0, 0, 1};
    const long long total = steps_of_items(p);
    const int steps = static_cast<int>((total + blocks - 1) / blocks);
    const bool shared = few && suits_shares(steps, longest, bytes_of_queries(p, (heads + 1ll) * (p.heads / p.kv_heads)) <= L2_BYTES);
    if (suits_parts(p, parts, blocks, total, shared ? steps + COST_OF_PARTS : max(longest, steps)))
        return {items * parts, 1, 0, 0, parts};
    if (!shared)
        return {items, 1, 0, 0, 1};
    return {0, steps, static_cast<int>(total), ITEM_START, 1};
}
