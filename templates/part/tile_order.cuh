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

// A tile is made of units of 64 rows, one for each warpgroup of consumers.
//$ if cluster > 1
// The blocks of a cluster take theirs one after the other.
__device__ __forceinline__ int unit_of(int consumer) { return cluster_rank() * (BLOCK_M / 64) + consumer; }
//$ else
__device__ __forceinline__ int unit_of(int consumer) { return consumer; }
//$ end
//$ if query_heads == packed
// A unit holds the rows of all heads that share a key head, head by head, of as many queries as there is room for; the
// rows left over belong to nobody. So keys and values are read once for all these heads.
__device__ __forceinline__ int heads_of_tile(const attention_params &p) { return p.heads / p.kv_heads; }
__device__ __forceinline__ int queries_of_unit(const attention_params &p) { return 64 / heads_of_tile(p); }
//$ else
__device__ __forceinline__ int heads_of_tile(const attention_params &) { return 1; }
__device__ __forceinline__ int queries_of_unit(const attention_params &) { return 64; }
//$ end
__device__ __forceinline__ int queries_of_tile(const attention_params &p) { return TILE_ROWS / 64 * queries_of_unit(p); }

// The query and the head that a row of a unit belongs to.
struct Row {
    int query; // len_q or more: of nobody
    int head;
};

__device__ __forceinline__ Row row_of(const attention_params &p, Tile tile, int unit, int row) {
    int queries = queries_of_unit(p), first = tile.query + unit * queries;
    //$ if query_heads == packed
    int head = row / queries;
    return head < heads_of_tile(p) ? Row{first + row % queries, tile.head + head} : Row{p.len_q, tile.head};
    //$ else
    return {first + row, tile.head};
    //$ end
}

struct TileQueue {
    int item, items; // of all blocks
    bool second;     // of a pair

    __device__ __forceinline__ bool empty() const { return item >= items; }
};

__device__ __forceinline__ int items_of_head(const attention_params &p) {
    int tiles = (p.len_q + queries_of_tile(p) - 1) / queries_of_tile(p);
    //$ if in_pairs
    return (tiles + 1) / 2;
    //$ else
    return tiles;
    //$ end
}

__device__ __forceinline__ TileQueue tile_queue(const attention_params &p) {
    return {static_cast<int>(blockIdx.x) / CLUSTER, items_of_head(p) * (p.heads / heads_of_tile(p)) * p.batch, false};
}

// The tile at the front, and the queue without it.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
    if (queue.empty())
        return {-1, 0, 0, 0};
    int row_heads = p.heads / heads_of_tile(p), group = row_heads / p.kv_heads;
    //$ if tile_order == sections
    int items = items_of_head(p), all_heads = row_heads * p.batch;
    // A section: as many heads as have their keys and values in half of the L2; all their items, heaviest first.
    constexpr float SECTION_BYTES = 32 << 20;
    float kv_bytes = 2.0f * (HEAD_DIM + HEAD_DIM_V) * max(p.len_kv, 1);
    int section = static_cast<int>(fminf(fmaxf(SECTION_BYTES * reciprocal_approx(kv_bytes) * group, 1), 1.0f * all_heads));
    int first = queue.item / (section * items) * section, within = queue.item - first * items;
    int heads = min(section, all_heads - first);
    int head = first + within % heads, order = within / heads;
    //$ elif tile_order == heaviest_first
    int heads = row_heads * p.batch, head = queue.item % heads, order = queue.item / heads;
    //$ else
    int items = items_of_head(p), head = queue.item / items, order = items - 1 - queue.item % items;
    //$ end
    int tiles = (p.len_q + queries_of_tile(p) - 1) / queries_of_tile(p), tile = tiles - 1 - order;
    //$ if in_pairs
    if (queue.second)
        tile = order;
    bool pair = tile != order; // the middle one stands alone
    if (!queue.second && pair) {
        queue.second = true;
    } else {
        queue.second = false;
        queue.item += gridDim.x / CLUSTER;
    }
    //$ else
    queue.item += gridDim.x / CLUSTER;
    //$ end
    //$ if score_bias == bias_rows
    // Batches of a head go together: what the score adds may be the same for them.
    int row_head = head / p.batch, batch = head % p.batch;
    //$ else
    int row_head = head % row_heads, batch = head / row_heads;
    //$ end
    return {tile * queries_of_tile(p), row_head * heads_of_tile(p), row_head / group, batch};
}
