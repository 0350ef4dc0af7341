//$ needs block_m panels
//$ include "load/query_chunk.cuh"

// Q of a Q tile to shared memory, as TMA would store it, by the threads of both consumer warpgroups. All products with the Q before
// it are complete.
__device__ __forceinline__ void load_queries(const attention_params &p, const Tile &tile, Panels<PANELS, BLOCK_M> &to) {
    const QueryRows rows(p);
    const int thread = threadIdx.x - 128;
#pragma unroll 6
    for (int index = thread; index < BLOCK_M * PANELS * 8; index += 256) {
        const int row = index / (PANELS * 8), chunk = index % (PANELS * 8);
        *reinterpret_cast<uint4 *>(&to[chunk / 8][row][(chunk ^ row) % 8 * 8]) = rows.chunk(tile, row, 8 * chunk);
    }
    fence_async();
    named_barrier_sync(4, 256);
}
