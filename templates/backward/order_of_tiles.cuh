//$ needs mask algorithm by_cluster most_shares dq_ordered step_m l2_bytes
//$ include "backward/l2_cache.cuh" if dq_ordered or mask != none

struct TileOfHead {
    int head, tile; // tile 0 is the longest //$ if mask == causal
    int head, tile;                          //$ else
};

//$ if dq_ordered
// Blocks that add to the same sums of dQ wait for each other. So tiles of different heads alternate: the next tile of a head begins when the
// tile before it is some steps ahead. Returns the number of heads that take turns: with fewer heads, more blocks wait for each other; with
// more, their queries do not stay in the L2 cache.
__device__ __forceinline__ int heads_in_turn(const attention_params &p, int heads, int parts) {
    const long long blocks = gridDim.x / 2; // clusters //$ if by_cluster
    const long long blocks = gridDim.x; //$ else
    const long long in_l2 = L2_BYTES * static_cast<long long>(parts) / max(bytes_of_queries(p, p.heads / p.kv_heads), 1ll);
    const bool brief = p.heads / p.kv_heads * p.len_q < 8 * STEP_M * parts; // items end before the next tile's turn //$ if mask == causal
    const long long most = min(max(in_l2, blocks / 16), brief ? heads : blocks / 8); //$ if mask == causal
    const long long most = min(max(in_l2, blocks / 16), blocks / 8);                 //$ else
    const int turns = (heads - 1) / static_cast<int>(max(most, 1ll)) + 1;
    return (heads - 1) / turns + 1; // about as many in every turn
}

// parts: of each item, which then count as heads.
__device__ __forceinline__ TileOfHead tile_in_order(const attention_params &p, int n, int heads, int tiles, int parts = 1) {
    const int most = heads_in_turn(p, heads, parts), first = n / (most * tiles) * most;
    const int in_turn = min(most, heads - first), place = n - first * tiles;
    return {first + place % in_turn, place / in_turn};
}
//$ elif mask == causal or (mask == custom_mask and algorithm == flash_async)
// Tiles of a head are processed in succession, so that what they read stays in the L2 cache. But they differ in work. Among the last heads,
// the longest tiles come first, so that blocks end together; otherwise some would begin a long tile when others have nothing left. //$ if mask == causal
// the first tiles come first, so that blocks end together: under most masks the last keys of a head are seen by the fewest queries. //$ else
constexpr int FEW_TILES = 768, LAST_TILES = 264; // six and two per multiprocessor //$ if mask == causal and most_shares > 0
constexpr int FEW_TILES = 384, LAST_TILES = 66; // six and one per cluster //$ elif mask == causal and by_cluster
constexpr int FEW_TILES = 768, LAST_TILES = 132; // six and one per multiprocessor //$ elif mask == causal and algorithm == flash_async
constexpr int FEW_TILES = 768, LAST_TILES = 384; // six and three per multiprocessor //$ elif mask == causal
constexpr int FEW_TILES = 1536, LAST_TILES = 264; // twelve and two per multiprocessor //$ else
constexpr int LAST_TILES_OF_FEW_HEADS = 768; // six per multiprocessor //$ if mask == custom_mask
// Where more heads take turns, each tile reads its queries from memory, unless those of all heads stay in the L2 cache.
constexpr int FEW_HEADS = 22; // three clusters read the queries of each at a time //$ if by_cluster
constexpr int FEW_HEADS = 44; // three blocks read the queries of each at a time   //$ else

// Returns how many heads, the last ones, take turns: each of them has its longest tile computed, then its next one. //$ if mask == causal
// Returns how many heads, the last ones, take turns: each of them has its first tile computed, then its next one.   //$ else
__device__ __forceinline__ int heads_in_turn(const attention_params &p, int heads, int tiles, int few) {
    if (heads * tiles <= few &&
        (heads * tiles <= LAST_TILES || heads <= FEW_HEADS || bytes_of_queries(p, p.batch * p.heads) <= L2_BYTES))
        return heads;
    //$ if mask == custom_mask
    const int last = (LAST_TILES + tiles - 1) / tiles, last_of_few = (LAST_TILES_OF_FEW_HEADS + tiles - 1) / tiles;
    return max(last, min(last_of_few, FEW_HEADS));
    //$ else
    return (LAST_TILES + tiles - 1) / tiles;
    //$ end
}

__device__ __forceinline__ TileOfHead tile_in_order(const attention_params &p, int n, int heads, int tiles, int few = FEW_TILES) {
    const int last = heads_in_turn(p, heads, tiles, few), before = (heads - last) * tiles;
    if (n < before)
        return {n / tiles, n % tiles};
    return {heads - last + (n - before) % last, (n - before) / last};
}
//$ else
// Tiles of a head are processed in succession, so that what they read stays in the L2 cache.
__device__ __forceinline__ TileOfHead tile_in_order(const attention_params &, int n, int, int tiles) { return {n / tiles, n % tiles}; }
//$ end
