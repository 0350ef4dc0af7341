//$ needs shared_bytes block_threads tile_rows cluster dependent_launches
//$ launch attention_begin grid min(1, (len_q + tile_rows - 1) / tile_rows * heads * batch / (sm_count + 1)) block 32 shared 0 dependent params attention_params
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch, sm_count) block block_threads shared shared_bytes cluster cluster dependent
//$ workspace 4 * min(1, (len_q + tile_rows - 1) / tile_rows * heads * batch / (sm_count + 1))
//$ include "target/sm_90.cuh"
//$ include "work/place.cuh"
//$ include "work/tiles_of_head.cuh"

// The Q tiles of all sequences, one sequence after the other. A block begins with the tile of its own index, and then
// takes the next one of all from a counter. So blocks end at about the same time, however long the sequences are.
struct TileQueue {
    int item;                 // next item of this block
    int batch, first;         // its sequence or an earlier one; first item of that sequence
    SequenceNumbers sequence; // of the tile that was taken last
};

__device__ __forceinline__ TileQueue tile_queue(const attention_params &) { return {worker(), 0, 0, {}}; }

// Returns the tile of the item. The items of a block ascend, so it looks at each sequence once.
__device__ __forceinline__ Tile next_tile(const attention_params &p, TileQueue &queue) {
#pragma unroll 1
    for (; queue.batch < p.batch; queue.batch++) {
        queue.sequence = sequence_numbers(p, queue.batch);
        const attention_params own = sequence_of(p, queue.sequence);
        const int tiles = own.len_kv > 0 ? tiles_of_head(own) : 0, item = queue.item - queue.first;
        if (item < tiles * tile_heads(p)) {
            const Place place = place_of(own, tile_heads(p), tiles, item);
            const int head = place.head, tile = tiles - 1 - place.order;
            return {tile * queries_of_tile(p), head, head / (p.heads / p.kv_heads), queue.batch};
        }
        queue.first += tiles * tile_heads(p);
    }
    return {-1, 0, 0, 0};
}

// Takes an item from the counter. There is no counter if every tile may have a block of its own: attention_begin is not launched then.
__device__ __forceinline__ void take_item(const attention_params &p, TileQueue &queue) {
    const int most = tiles_of_head(p) * all_heads(p);
    queue.item = most <= workers() ? most : workers() + atomicAdd(static_cast<int *>(p.workspace), 1);
}

extern "C" __global__ void __launch_bounds__(32) attention_begin(const __grid_constant__ attention_params p) {
    grid_dependency_wait(), launch_dependents(); //$ if dependent_launches == 1
    if (threadIdx.x == 0)
        *static_cast<int *>(p.workspace) = 0;
}
