//$ needs step_m block_n by_cluster
//$ include "backward/clear_nan.cuh"
//$ include "backward/row_statistics_launch.cuh"

// Under a causal mask, the warp that loads tiles takes NaN out of them before consumers see them. It loads such a tile for a barrier of its
// own. A NaN in Q or K makes LSE of every query that sees it NaN, so some query of those that do not see all keys of a tile tells
// of each NaN in it.

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

//$ if by_cluster
// Takes NaN out of a tile that has been loaded, and hands it to the consumers.
template <typename Tile> __device__ __forceinline__ void hand_on_without_nan(Tile &tile, Barrier *full) {
//$ else
// Waits for a tile that is loaded for nan_full, takes NaN out of it, and hands it to the consumers.
template <typename Tile>
__device__ __forceinline__ void hand_on_without_nan(SharedKeys &shared, Ring<1> &ring, Tile &tile, Barrier *full) {
    barrier_wait(&shared.nan_full, ring.parity());
    ring.count++;
//$ end
    clear_nan(reinterpret_cast<unsigned short *>(tile), sizeof tile);
    __syncwarp();
    if (elect_one())
        barrier_arrive(full);
}
