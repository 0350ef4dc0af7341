//$ needs layout score block_n
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/own_sequence.cuh"
//$ include "backward/row_statistics_launch.cuh"

// Blocks are persistent. A work item is a tile of BLOCK_N keys of one K/V head; blocks take items from a counter at the end of the
// workspace, which the launch of row statistics sets to 0.
struct alignas(16) Item {
    int kv_index, key0; // batch * kv_heads + kv_head; first key, negative if there is no further item
    Sequence sequence; //$ if layout != dense
};

// Tells the compiler that all lanes have the same number, so that what depends on it stays in uniform registers.
__device__ __forceinline__ int same_in_warp(int number) { return __shfl_sync(0xffffffffu, number, 0); }

// Takes the next item; all lanes of the warp receive it. Under a causal mask the first keys of a head are seen by the most queries.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads;
    for (;;) {
        const int taken = threadIdx.x % 32 == 0 ? atomicAdd(counter, 1) : 0;
        const int n = __shfl_sync(0xffffffffu, taken, 0);
        if (n >= heads * tiles)
            return {0, -1};
        const TileOfHead next = tile_in_order(n, heads, tiles);
        const int key0 = next.tile * BLOCK_N;
        //$ if score == custom_score
        // all batches of a head in succession: they often share what the score reads
        const int head = next.head / all.batch, kv_index = next.head % all.batch * all.kv_heads + head;
        //$ else
        const int kv_index = next.head;
        //$ end
        //$ if layout == dense
        return {kv_index, key0};
        //$ else
        const attention_params own = sequence_of(all, kv_index / all.kv_heads);
        if (key0 < own.len_kv)
            return {kv_index, key0, numbers_of(own)};
        //$ end
    }
}
