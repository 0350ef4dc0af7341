//$ needs layout score block_n
//$ include "backward/own_sequence.cuh"
//$ include "backward/row_statistics_launch.cuh"

// Blocks are persistent. A work item is a tile of BLOCK_N keys of one K/V head; blocks take items from a counter at the end of the
// workspace, which the launch of row statistics sets to 0.
struct alignas(16) Item {
    int kv_index, key0; // batch * kv_heads + kv_head, the first key; key0 is negative when there are no more
    Sequence sequence; //$ if layout != dense
};

// Tells the compiler that all lanes have the same number, so that what depends on it stays in uniform registers.
__device__ __forceinline__ int same_in_warp(int number) { return __shfl_sync(0xffffffffu, number, 0); }

// Takes the next item; all lanes of the warp get it. The first keys of a head come first: under a causal mask most queries see them.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, items = all.batch * all.kv_heads * tiles;
    for (;;) {
        const int taken = threadIdx.x % 32 == 0 ? atomicAdd(counter, 1) : 0;
        const int n = __shfl_sync(0xffffffffu, taken, 0), key0 = n % tiles * BLOCK_N;
        if (n >= items)
            return {0, -1};
        //$ if score == custom_score
        // all batches of a head one behind another: what the score reads is often theirs together
        const int head = n / tiles / all.batch, kv_index = n / tiles % all.batch * all.kv_heads + head;
        //$ else
        const int kv_index = n / tiles;
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
