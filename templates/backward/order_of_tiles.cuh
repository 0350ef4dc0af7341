//$ needs mask algorithm dq_ordered
//$ include "backward/l2_cache.cuh" if dq_ordered

struct TileOfHead {
    int head, tile; // tile 0 is the longest //$ if mask == causal
    int head, tile;                          //$ else
};

//$ if dq_ordered
// Blocks that add to the same sums of dQ wait for each other. So tiles of different heads alternate, of as many as the L2 cache holds:
// the next tile of a head begins when the tile before it is some steps ahead.
__device__ __forceinline__ TileOfHead tile_in_order(const attention_params &p, int n, int heads, int tiles) {
    const int most = static_cast<int>(min(max(L2_BYTES / max(bytes_of_queries(p, 1), 1ll), 1ll), static_cast<long long>(heads)));
    const int first = n / (most * tiles) * most, at_once = min(most, heads - first), place = n - first * tiles;
    return {first + place % at_once, place / at_once};
}
//$ elif mask == causal or (mask == custom_mask and algorithm == flash_async)
// Tiles of a head are processed in succession, so that what they read stays in the L2 cache. But they differ in work. Among the last heads,
// the longest tiles come first, so that blocks end together; otherwise some would begin a long tile when others have nothing left. //$ if mask == causal
// the first tiles come first, so that blocks end together: under most masks the last keys of a head are seen by the fewest queries. //$ else
constexpr int FEW_TILES = 768, LAST_TILES = 384; // six and three per multiprocessor //$ if mask == causal
constexpr int FEW_TILES = 1536, LAST_TILES = 768; // twelve and six per multiprocessor //$ else
__device__ __forceinline__ TileOfHead tile_in_order(int n, int heads, int tiles) {
    const int last = heads * tiles <= FEW_TILES ? heads : (LAST_TILES + tiles - 1) / tiles, before = (heads - last) * tiles;
    if (n < before)
        return {n / tiles, n % tiles};
    return {heads - last + (n - before) % last, (n - before) / last};
}
//$ else
// Tiles of a head are processed in succession, so that what they read stays in the L2 cache.
__device__ __forceinline__ TileOfHead tile_in_order(int n, int, int tiles) { return {n / tiles, n % tiles}; }
//$ end
