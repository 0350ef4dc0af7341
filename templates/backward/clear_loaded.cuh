//$ needs step_m block_n block_threads layout
//$ include "backward/clear_nan.cuh"
//$ include "backward/row_statistics_launch.cuh"

// Under a causal mask, the warp that loads tiles takes NaN out of them before consumers see them. It loads such a tile for a barrier of its
// own, nan_full. A NaN in Q or K makes LSE of every query that sees it NaN, so some query of those that do not see all keys of a tile tells
// of each NaN in it.

// Sets shared.some_nan, which is 0, to 1 if there is a NaN in any head. Called by all threads of the block.
__device__ __forceinline__ void find_nan(const attention_params &p, SharedKeys &shared) {
    //$ if layout == ragged
    if (threadIdx.x == 0) // rows between the sequences are not set, so the bytes of all heads tell nothing
        shared.some_nan = 1;
    //$ else
    const uint4 *const bytes = reinterpret_cast<const uint4 *>(row_nan(p, 0));
    const long long count = static_cast<long long>(p.batch) * p.heads * (padded_queries(p) / 64);
    unsigned found = 0;
#pragma unroll 4
    for (long long i = threadIdx.x; i < count; i += BLOCK_THREADS)
        found |= bytes[i].x | bytes[i].y | bytes[i].z | bytes[i].w;
    if (found != 0)
        atomicMax(&shared.some_nan, 1);
    //$ end
}

// NaN of the queries of a head that do not see all keys of an item, at most 256: a bit for eight queries, from first_query() on.
struct NanOfQueries {
    int index;       // batch * heads + head
    unsigned q, d_o; // NaN in Q, or in a key; NaN in dO
};
__device__ __forceinline__ NanOfQueries nan_of_queries(const attention_params &p, int index, int key0) {
    const int eight = first_query(p, key0) / 8 + opaque(static_cast<int>(threadIdx.x) % 32);
    const bool exists = key0 >= 0 && eight < padded_queries(p) / 8;
    const unsigned found = exists ? reinterpret_cast<const unsigned short *>(row_nan(p, index))[eight] : 0;
    return {index, __ballot_sync(0xffffffffu, found & 0x0101 * NAN_IN_LSE), __ballot_sync(0xffffffffu, found & 0x0101 * NAN_IN_D_O)};
}

// The same for a step: which tiles are to be cleared. `nan`: of some head of the item; becomes that of the step's head.
struct NanOfStep {
    bool q, d_o;
};
__device__ __forceinline__ NanOfStep nan_of_step(const attention_params &p, const OtherTile &tile, int key0, NanOfQueries &nan) {
    if (tile.first < 0 || keys_seen(p, tile.first) >= min(key0 + BLOCK_N, p.len_kv))
        return {false, false};
    if (tile.index != nan.index)
        nan = nan_of_queries(p, tile.index, key0);
    const int shift = (tile.first - first_query(p, key0)) / 8;
    constexpr unsigned STEP = 0xffffffff >> (32 - STEP_M / 8);
    return {(nan.q >> shift & STEP) != 0, (nan.d_o >> shift & STEP) != 0};
}

// Waits for a tile that is loaded for nan_full, takes NaN out of it, and hands it to the consumers.
template <typename Tile>
__device__ __forceinline__ void hand_on_without_nan(SharedKeys &shared, Ring<1> &ring, Tile &tile, Barrier *full) {
    barrier_wait(&shared.nan_full, ring.parity());
    ring.count++;
    clear_nan(reinterpret_cast<unsigned short *>(tile), sizeof tile);
    __syncwarp();
    if (elect_one())
        barrier_arrive(full);
}
