//$ needs least_run q_tile_cost

// Who takes runs of K/V tiles that begin anywhere: blocks.
struct Workers {
    int most;      // that there can be
    int cost;      // K/V tiles that a Q tile counts as in addition to its own
    int least_run; // K/V tiles
};

__device__ __forceinline__ Workers workers_of(int blocks, int, int) { return {blocks, Q_TILE_COST, LEAST_RUN + Q_TILE_COST}; }
