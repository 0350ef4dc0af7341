//$ needs panels block_m
//$ include "load/query_chunk.cuh"

// The threads of both consumer warpgroups write Q of a Q tile to shared memory, as TMA would store it, 4 threads per row.
// All products with the previous Q are complete; O of the previous Q tile may still be on its way through this memory.
__device__ __forceinline__ void load_queries(const attention_params &p, const Tile &tile, Panels<PANELS, BLOCK_M> &to) {
    const QueryRows rows(p);
    const int row = (threadIdx.x - 128) / 4;
    const Input *from = rows.row(tile, row);
    uint4 chunks[2 * PANELS] = {}; // zeros for padding
    if (from && rows.whole) {
#pragma unroll
        for (int i = 0; i < 2 * PANELS; i++) // all in flight at once
            chunks[i] = rows.chunk_of<true>(from, 8 * (4 * i + threadIdx.x % 4));
    } else if (from) {
#pragma unroll
        for (int i = 0; i < 2 * PANELS; i++)
            chunks[i] = rows.chunk(tile, row, 8 * (4 * i + threadIdx.x % 4));
    }
    named_barrier_sync(4, 256);
#pragma unroll
    for (int i = 0; i < 2 * PANELS; i++)
        *reinterpret_cast<uint4 *>(&to[i / 2][row][((4 * i + threadIdx.x % 4) ^ row) % 8 * 8]) = chunks[i];
    fence_async();
    named_barrier_sync(4, 256);
}
