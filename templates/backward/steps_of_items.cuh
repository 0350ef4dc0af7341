//$ needs mask block_n
//$ include "backward/other_tiles.cuh"

// What an item costs besides its steps, in steps: it loads K and V, and stores dK and dV.
constexpr int ITEM_START = 3;

// Returns the number of steps over the queries that see keys of a tile.
__device__ __forceinline__ int steps_of_tile(const attention_params &p, int tile) {
    return p.heads / p.kv_heads * steps_of_head(p, tile * BLOCK_N);
}
//$ if mask != custom_mask

// Returns the steps of all items, with their starts.
__device__ __forceinline__ long long steps_of_items(const attention_params &p) {
    const int tiles = (p.len_kv + BLOCK_N - 1) / BLOCK_N;
    long long steps = 0;
    //$ if mask == causal
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++)
        steps += ITEM_START + steps_of_tile(p, tile);
    //$ else
    steps = tiles * static_cast<long long>(ITEM_START + steps_of_tile(p, 0));
    //$ end
    return p.batch * p.kv_heads * steps;
}
//$ end
