//$ needs least_run q_tile_cost

// Blocks take the runs of K/V tiles that begin anywhere.
struct Workers {
    int most;      // largest number of workers
    int cost;      // extra K/V tiles charged for each Q tile
    int least_run; // shortest run, in K/V tiles
};

__device__ __forceinline__ Workers workers_of(int blocks, int, int) { return {blocks, Q_TILE_COST, LEAST_RUN + Q_TILE_COST}; }
