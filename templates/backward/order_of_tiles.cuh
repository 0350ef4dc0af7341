//$ needs mask

// Tiles of a head are processed in succession, so that what they read stays in the L2 cache.
// Under a causal mask tiles differ in work. Among the last heads, the longest tiles come first, so that blocks end //$ if mask == causal
// together; otherwise some would begin a long tile when others have nothing left. //$ if mask == causal
struct TileOfHead {
    int head, tile; // tile 0 is the longest //$ if mask == causal
    int head, tile;                          //$ else
};

//$ if mask == causal
constexpr int FEW_TILES = 768, LAST_TILES = 384; // six and three per multiprocessor
__device__ __forceinline__ TileOfHead tile_in_order(int n, int heads, int tiles) {
    const int last = heads * tiles <= FEW_TILES ? heads : (LAST_TILES + tiles - 1) / tiles, before = (heads - last) * tiles;
    if (n < before)
        return {n / tiles, n % tiles};
    return {heads - last + (n - before) % last, (n - before) / last};
}
//$ else
__device__ __forceinline__ TileOfHead tile_in_order(int n, int, int tiles) { return {n / tiles, n % tiles}; }
//$ end
