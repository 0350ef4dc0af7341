//$ needs layout score block_n most_shares divides_heads dq_added dq_ordered batches_together
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/shares.cuh" if most_shares > 0
//$ include "backward/own_sequence.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/own_elements.cuh" if batches_together

// Blocks are persistent. A work item is a tile of BLOCK_N keys of one K/V head; blocks take items from a counter at the end of the
// workspace, which the launch of row statistics sets to 0.
struct alignas(16) Item {
    int kv_index, key0; // batch * kv_heads + kv_head; first key, negative if there is no further item
    Sequence sequence; //$ if layout != dense
    //$ if most_shares > 0
    int first_step, steps; // which of the item's steps this part has, if there are several parts
    int part, parts, sums; // number of this part; number of all parts; where the first of several stores its sums
    int heads; // if not 0, this part has all steps of so many heads, or of those that are left //$ if divides_heads == 1
    //$ end
};

// Tells the compiler that all lanes have the same number, so that what depends on it stays in uniform registers.
__device__ __forceinline__ int same_in_warp(int number) { return __shfl_sync(0xffffffffu, number, 0); }

// Returns batch * kv_heads + kv_head of a tile.
__device__ __forceinline__ int kv_index_of(const attention_params &all, const TileOfHead &tile) {
    // all batches of a head in succession: they often share what the score reads          //$ if score == custom_score
    return tile.head % all.batch * all.kv_heads + tile.head / all.batch; //$ if score == custom_score
    return tile.head;                                                    //$ else
}

// Returns the number of the next item, or share of items.
__device__ __forceinline__ int next_number(int *counter, bool first) {
    //$ if dq_added and not dq_ordered
    // All blocks begin at once, so each begins with its own number, without waiting for the counter, which counts the others.
    if (first)
        return static_cast<int>(blockIdx.x);
    const int before = static_cast<int>(gridDim.x);
    //$ else
    const int before = 0;
    //$ end
    const int taken = threadIdx.x % 32 == 0 ? atomicAdd(counter, 1) : 0;
    return before + __shfl_sync(0xffffffffu, taken, 0);
}

//$ if most_shares > 0
// What the block has left of the share that it took: steps of the shared items.
struct OpenShare {
    int next, end;
};

//$ if divides_heads == 1
constexpr int FEW_PARTS = 528; // four per multiprocessor: so many are ordered by length, regardless of the head

// Returns a part of an item that has some of the heads that share its keys. A tile's parts are ordered like tiles of further heads.
__device__ __forceinline__ Item part_of_heads(const attention_params &all, int n, int parts) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, group = all.heads / all.kv_heads;
    const TileOfHead at = tile_in_order(n, all.batch * all.kv_heads * parts, tiles, FEW_PARTS);
    const int kv_index = at.head / parts, part = at.head - kv_index * parts;
    return {kv_index, at.tile * BLOCK_N, 0, 0, part, parts, (kv_index * tiles + at.tile) * parts, (group + parts - 1) / parts};
}

//$ end
// Takes the next item, or part of an item; all lanes of the warp receive it.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter, const Shares &shares, OpenShare &open, bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads;
    for (;; first = false) {
        if (open.next == open.end) {
            const int n = next_number(counter, first);
            if (n < shares.whole) {
                if (shares.parts > 1) return part_of_heads(all, n, shares.parts); //$ if divides_heads == 1
                const TileOfHead tile = tile_in_order(n, heads, tiles);
                return {kv_index_of(all, tile), tile.tile * BLOCK_N, 0, 0, 0, 1};
            }
            open.next = (n - shares.whole) * shares.steps;
            if (open.next >= shares.total)
                return {0, -1};
            open.end = min(open.next + shares.steps, shares.total);
        }
        const SharedStep at = find_step(all, shares, open.next);
        const TileOfHead tile = tile_in_order(at.item, heads, tiles);
        const int begin = open.next - at.step, end = begin + at.steps; // of the item
        const int first_step = max(at.step, shares.start), steps = min(end, open.end) - begin - first_step;
        const int share = open.next / shares.steps;
        const int first_share = (begin + shares.start) / shares.steps, last_share = (end - 1) / shares.steps;
        open.next = min(end, open.end);
        if (steps > 0)
            return {kv_index_of(all, tile), tile.tile * BLOCK_N, first_step - shares.start, steps, share - first_share,
                    last_share - first_share + 1, 2 * first_share + (first_share * shares.steps < begin)};
    }
}
//$ elif batches_together
// A tile of keys of one head, of which the block takes `batches` items; the next is number `batch`.
struct OpenTile {
    TileOfHead tile;
    int batch, batches;
};

// Takes the next item; all lanes of the warp receive it. `together`: all batches of a tile follow each other.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter, OpenTile &open, bool together, bool first) {
    if (open.batch == open.batches) {
        const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = together ? all.kv_heads : all.batch * all.kv_heads;
        const int n = next_number(counter, first);
        if (n >= heads * tiles)
            return {0, -1};
        open = {tile_in_order(n, heads, tiles), 0, together ? all.batch : 1};
    }
    const int batch = open.batch++;
    return {together ? batch * all.kv_heads + open.tile.head : kv_index_of(all, open.tile), open.tile.tile * BLOCK_N};
}
//$ else
// Takes the next item; all lanes of the warp receive it. Under a causal mask the first keys of a head are seen by the most queries.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter, bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads;
    for (;; first = false) {
        const int n = next_number(counter, first);
        if (n >= heads * tiles)
            return {0, -1};
        const TileOfHead next = tile_in_order(all, n, heads, tiles); //$ if dq_ordered
        const TileOfHead next = tile_in_order(n, heads, tiles);      //$ else
        const int kv_index = kv_index_of(all, next), key0 = next.tile * BLOCK_N;
        //$ if layout == dense
        return {kv_index, key0};
        //$ else
        const attention_params own = sequence_of(all, kv_index / all.kv_heads);
        if (key0 < own.len_kv)
            return {kv_index, key0, numbers_of(own)};
        //$ end
    }
}
//$ end

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
