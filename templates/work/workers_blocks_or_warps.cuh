//$ needs least_run q_tile_cost warps
//$ note Warps take runs from this many Q tiles per block on, if each has fewer K/V tiles than that: few long Q tiles would come in many
//$ note parts.
//$ let apart_q_tiles = warps / 2
//$ let apart_tiles = 128

// Blocks take the runs of K/V tiles that begin anywhere, or warps do, if there are many short Q tiles.
struct Workers {
    int most;      // largest number of workers
    int warps;     // warps per worker
    int cost;      // extra K/V tiles charged for each Q tile
    int least_run; // shortest run, in K/V tiles
};

__device__ __forceinline__ Workers workers_of(int blocks, int q_tiles, int tiles) {
    if (q_tiles >= APART_Q_TILES * blocks && tiles / APART_TILES < q_tiles)
        return {blocks * WARPS, 1, Q_TILE_COST / WARPS, 1 + Q_TILE_COST / WARPS};
    return {blocks, WARPS, Q_TILE_COST, LEAST_RUN + Q_TILE_COST};
}
