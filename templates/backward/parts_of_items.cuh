//$ needs mask layout apart dq_added dq_ordered block_n heads_of_part l2_bytes
//$ include "backward/l2_cache.cuh"
//$ include "backward/part_of_heads.cuh"
//$ include "backward/steps_of_items.cuh"

// Items are divided where there are few of them for the blocks.
// Or where blocks are soon at different heads, whose queries do not stay in the L2 cache. //$ if mask == causal

constexpr int COST_OF_PART = 8; // what a part costs besides its steps, in steps //$ if apart
constexpr int COST_OF_PART = 5; // what a part costs besides its steps, in steps //$ else
constexpr int LEAST_GAIN = 8;  // parts must save one step in so many: with more parts, more blocks wait for each other's additions //$ if dq_ordered
constexpr int LEAST_GAIN = 32; // parts must save one step in so many: a sample tells too little of long tiles //$ elif mask == custom_mask
constexpr int LEAST_GAIN = 16; // parts must save one step in so many //$ else
constexpr int FEW_ROUNDS = 4;  // at most so many parts for each block: the workspace in backward/parts.cuh has room for them

// Steps of all items, with their starts, and of a head for its longest tile of keys.
struct ItemSteps {
    long long all;
    int longest_of_head;
};

__device__ __forceinline__ ItemSteps find_steps(const attention_params &p) {
    //$ if mask == custom_mask
    const int tiles = (p.len_kv + BLOCK_N - 1) / BLOCK_N, apart = max(tiles / 8, 1); // eight of the tiles tell of all
    int steps = 0, longest = 0, tested = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile += apart, tested++) {
        const int of_head = steps_of_head(p, tile * BLOCK_N);
        steps += of_head, longest = max(longest, of_head);
    }
    const int mean = p.heads / p.kv_heads * steps / max(tested, 1);
    return {static_cast<long long>(p.batch) * p.kv_heads * tiles * (ITEM_START + mean), longest};
    //$ else
    return {steps_of_items(p), steps_of_head(p, 0)};
    //$ end
}

// Returns about how many steps each block has if parts have so many heads.
__device__ __forceinline__ int steps_of_blocks(const attention_params &p, int heads, const ItemSteps &steps) {
    const int blocks = static_cast<int>(gridDim.x), group = p.heads / p.kv_heads, parts = (group + heads - 1) / heads;
    const long long items = static_cast<long long>(p.batch) * p.kv_heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int start = parts > 1 ? COST_OF_PART : ITEM_START, longest = start + heads * steps.longest_of_head;
    const int even = static_cast<int>((steps.all + items * (parts * start - ITEM_START)) / blocks);
    //$ if not dq_added
    const int needed = max(even, longest / 2); // blocks of the next launch begin when these have nothing left
    //$ elif mask == causal
    const int needed = max(even + longest / 4, longest);
    //$ elif mask == none
    const int needed = static_cast<int>((items * parts + blocks - 1) / blocks) * longest;
    //$ else
    const int count = static_cast<int>(items) * parts, mean = static_cast<int>(static_cast<float>(even) * blocks / count);
    const int needed = max(max(even + (longest - mean) / 2, longest), (count + blocks - 1) / blocks * mean);
    //$ end
    //$ if mask == causal
    // the more heads, the more often the cache misses: these factors were measured
    if (heads >= 2 * HEADS_OF_PART && bytes_of_queries(p, p.batch * p.heads) > L2_BYTES)
        return needed + needed / (heads >= 4 * HEADS_OF_PART ? 4 : 8);
    //$ end
    return needed;
}

// Returns the number of parts of each item. Sequences are taken to be as long as the longest. //$ if layout != dense
// Returns the number of parts of each item.                                                  //$ else
__device__ __forceinline__ int parts_of_items(const attention_params &p) {
    const int group = p.heads / p.kv_heads;
    const int most = min(group, max(parts_of_heads(p), FEW_ROUNDS * static_cast<int>(gridDim.x) / key_tile_count(p)));
    if (most <= 1)
        return 1;
    const ItemSteps steps = find_steps(p);
    const int fewest = (group + most - 1) / most; // heads of a part
    int best = group, least = steps_of_blocks(p, group, steps);
#pragma unroll 1
    for (int heads = group; heads > fewest;) {
        heads = max((heads + 1) / 2, fewest);
        const int needed = steps_of_blocks(p, heads, steps);
        if (needed < least - least / LEAST_GAIN)
            best = heads, least = needed;
    }
    return (group + best - 1) / best;
}
//$ if layout != dense

// True if parts of this sequence's items pay: they have many steps, or not much fewer than the longest sequence, for which there are parts.
__device__ __forceinline__ bool is_long_enough(const attention_params &all, const attention_params &own, int parts) {
    return steps_of_tile(own, own.len_kv / BLOCK_N / 2) > min(2 * parts * COST_OF_PART, steps_of_tile(all, 0) / 4);
}
//$ end
