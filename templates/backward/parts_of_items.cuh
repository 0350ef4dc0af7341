//$ needs mask layout apart dq_added dq_ordered block_n heads_of_part l2_bytes
//$ include "backward/l2_cache.cuh"
//$ include "backward/part_of_heads.cuh"
//$ include "backward/steps_of_items.cuh"

// Items are divided where there are few of them for the blocks, or where blocks are soon at different heads, whose queries do not stay in   //$ if mask == causal
// the L2 cache.                                                                                                                             //$ if mask == causal
// Items are divided where there are few of them for the blocks.                                                                             //$ else

constexpr int COST_OF_PART = 8; // what a part costs besides its steps, in steps //$ if apart
constexpr int COST_OF_PART = 5; // what a part costs besides its steps, in steps //$ else
constexpr int CAUTION = 8;      // parts must save this share of the steps: blocks that add in order wait for more others //$ if dq_ordered
constexpr int CAUTION = 16;     // parts must save this share of the steps //$ else
constexpr int FEW_ROUNDS = 4;   // so many parts for each block at most, for which the workspace has room

// Returns about how many steps each block has if items have so many parts. steps: of all items.
__device__ __forceinline__ int steps_of_blocks(const attention_params &p, int parts, long long steps) {
    const int blocks = static_cast<int>(gridDim.x), group = p.heads / p.kv_heads, heads = (group + parts - 1) / parts;
    const long long items = static_cast<long long>(p.batch) * p.kv_heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int start = parts > 1 ? COST_OF_PART : ITEM_START, longest = start + heads * steps_of_head(p, 0);
    const int even = static_cast<int>((steps + items * (parts * start - ITEM_START)) / blocks);
    //$ if not dq_added
    const int needed = max(even, longest / 2); // blocks of the next launch begin when these have nothing left
    //$ elif mask == causal
    const int needed = max(even + longest / 4, longest);
    //$ else
    const int needed = static_cast<int>((items * parts + blocks - 1) / blocks) * longest;
    //$ end
    //$ if mask == causal
    // the more heads, the more often the cache misses: these factors were measured
    if (heads >= 2 * HEADS_OF_PART && bytes_of_queries(p, p.batch * p.kv_heads) > L2_BYTES)
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
    const long long steps = steps_of_items(p);
    int best = 1, least = steps_of_blocks(p, 1, steps);
#pragma unroll 1
    for (int parts = 1; parts < most;) {
        parts = min(2 * parts, most);
        const int needed = steps_of_blocks(p, parts, steps);
        if (needed < least - least / CAUTION)
            best = parts, least = needed;
    }
    return best;
}
//$ if layout != dense

// True if items of this sequence have so many steps that parts of them pay.
__device__ __forceinline__ bool is_long_enough(const attention_params &own, int parts) {
    return steps_of_tile(own, own.len_kv / BLOCK_N / 2) > 2 * parts * COST_OF_PART;
}
//$ end
