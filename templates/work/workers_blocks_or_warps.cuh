//$ needs least_run q_tile_cost warps
//$ note From so many Q tiles a block on, when they have fewer K/V tiles each than that: few and long ones would come in many parts.
//$ let apart_q_tiles = warps / 2
//$ let apart_tiles = 128

// Who takes runs of K/V tiles that begin anywhere: blocks, or where Q tiles are many and short, warps.
struct Workers {
    int most;      // that there can be
    int warps;     // of one of them
    int cost;      // K/V tiles that a Q tile counts as in addition to its own
    int least_run; // K/V tiles
};

__device__ __forceinline__ Workers workers_of(int blocks, int q_tiles, int tiles) {
    if (q_tiles >= APART_Q_TILES * blocks && tiles / APART_TILES < q_tiles)
        return {blocks * WARPS, 1, Q_TILE_COST / WARPS, 1 + Q_TILE_COST / WARPS};
    return {blocks, WARPS, Q_TILE_COST, LEAST_RUN + Q_TILE_COST};
}
