//$ needs layout score most_shares items_in_parts divides_heads dq_added dq_ordered batches_together by_cluster
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/own_sequence.cuh"
//$ include "backward/row_statistics_launch.cuh"

// Blocks are persistent. A work item is a tile of BLOCK_N keys of one K/V head; blocks take items from a counter at the end of the
// workspace, which the launch of row statistics sets to 0.
struct alignas(16) Item {
    int kv_index, key0; // batch * kv_heads + kv_head; first key, negative if there is no further item
    Sequence sequence; //$ if layout != dense
    int part, parts; // number of this part; number of all parts, if there are several //$ if items_in_parts
    int sums; // where the first part stores its sums //$ if items_in_parts
    int heads; // if not 0, this part has all steps of so many heads, or of those that are left //$ if divides_heads == 1
    int first_step, steps; // otherwise, which of the item's steps it has //$ if most_shares > 0
};

// Tells the compiler that all lanes have the same number, so that what depends on it stays in uniform registers.
__device__ __forceinline__ int same_in_warp(int number) { return __shfl_sync(0xffffffffu, number, 0); }

// Returns batch * kv_heads + kv_head of a tile.
__device__ __forceinline__ int kv_index_of(const attention_params &all, const TileOfHead &tile) {
    // all batches of a head in succession: they often share what the score reads          //$ if score == custom_score
    return tile.head % all.batch * all.kv_heads + tile.head / all.batch; //$ if score == custom_score
    return tile.head;                                                    //$ else
}

// What the blocks of a launch take items from.
struct ItemCounter {
    int *taken; // how many they have taken
    int parts;  // parts of each item //$ if divides_heads == 1 and most_shares == 0
};

// Returns the number of the next item, or share of items.
__device__ __forceinline__ int next_number(const ItemCounter &counter, bool first) {
    //$ if dq_added and not dq_ordered
    // All blocks begin at once, so each begins with its own number, without waiting for the counter, which counts the others.
    if (first)
        return static_cast<int>(blockIdx.x / 2); //$ if by_cluster
        return static_cast<int>(blockIdx.x);     //$ else
    const int before = static_cast<int>(gridDim.x / 2); //$ if by_cluster
    const int before = static_cast<int>(gridDim.x);     //$ else
    //$ else
    const int before = 0;
    //$ end
    const int taken = threadIdx.x % 32 == 0 ? atomicAdd(counter.taken, 1) : 0;
    return before + __shfl_sync(0xffffffffu, taken, 0);
}

//$ include "backward/take_batches.cuh" if batches_together else "backward/take_shares.cuh" if most_shares > 0 else "backward/take_parts.cuh" if divides_heads == 1 else "backward/take_items.cuh"

//$ if divides_heads == 1 and most_shares == 0
// Returns the counter of a launch. All threads compute the number of parts: where one thread did, the compiler had fewer registers for
// consumers.
//$ else
// Returns the counter of a launch.
//$ end
__device__ __forceinline__ ItemCounter counter_of_items(const attention_params &p, int launch) {
    return {item_counter(p, launch), parts_of_items(p)}; //$ if divides_heads == 1 and most_shares == 0
    return {item_counter(p, launch)};                    //$ else
}

// Returns the walk over the queries that see any of an item's keys.
__device__ __forceinline__ QueryTiles queries_of(const attention_params &p, const Item &item) {
    const int group = p.heads / p.kv_heads;
    //$ if divides_heads == 1
    if (item.heads > 0) {
        const int first = item.part * item.heads;
        return query_tiles(p, item.kv_index * group + first, min(item.heads, group - first), item.key0);
    }
    //$ end
    QueryTiles walk = query_tiles(p, item.kv_index * group, group, item.key0);
    if (item.parts > 1) limit_to_steps(walk, p, item.first_step, item.steps); //$ if most_shares > 0
    return walk;
}
