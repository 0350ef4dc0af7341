//$ needs block_m block_n least_run split_cost
//$ include "work/run.cuh"

// Runs for sequences that all have the same lengths, so that all Q tiles have the same number of K/V tiles.
struct Plan {
    int workers;   // blocks that have a run
    int row_tiles; // Q tiles of a K/V head
    int teams;     // of blocks
    int tiles;     // K/V tiles of a Q tile
    int splits;    // parts of a Q tile, for blocks of its own; 0: runs begin anywhere
    int length;    // K/V tiles of a run ...
    int longer;    // ... and one more in this many first ones
};

// Each run has at least LEAST_RUN K/V tiles, unless there are too few.
__device__ __forceinline__ Plan plan_of(const attention_params &p, int blocks) {
    Plan plan;
    plan.row_tiles = (rows_of_group(p) + BLOCK_M - 1) / BLOCK_M;
    plan.tiles = max(1, (p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int q_tiles = plan.row_tiles * p.kv_heads * p.batch;
    plan.teams = 1;
    if (2 * q_tiles <= blocks) {
        const int splits = min(blocks / q_tiles, (plan.tiles + LEAST_RUN - 1) / LEAST_RUN);
        plan.length = (plan.tiles + splits - 1) / splits;
        plan.splits = (plan.tiles + plan.length - 1) / plan.length;
        plan.longer = 0;
        plan.workers = q_tiles * plan.splits;
    } else {
        plan.teams = teams_of(plan.row_tiles, blocks);
        const int all = q_tiles / plan.teams * plan.tiles, workers = min(blocks / plan.teams, (all + LEAST_RUN - 1) / LEAST_RUN);
        plan.splits = 0;
        plan.workers = plan.teams * workers;
        plan.length = all / workers;
        plan.longer = all % workers;
        //$ if split_cost > 0
        // Runs of whole Q tiles, if no block then has much more to do: parts of a Q tile must be written, read and combined.
        const int of_team = q_tiles / plan.teams, whole = (of_team + workers - 1) / workers;
        if (whole * plan.tiles <= plan.length + SPLIT_COST) {
            plan.workers = plan.teams * ((of_team + whole - 1) / whole);
            plan.length = whole * plan.tiles;
            plan.longer = 0;
        }
        //$ end
    }
    return plan;
}

__device__ __forceinline__ Start start_of(const attention_params &p, const Plan &plan, int worker) {
    const int workers = plan.workers / plan.teams, team = worker / workers;
    int index; // of the Q tile, among those of the team
    Run run;
    if (plan.splits > 0) {
        index = worker / plan.splits;
        run.first = index * plan.tiles + worker % plan.splits * plan.length;
        run.end = min(run.first + plan.length, (index + 1) * plan.tiles);
    } else {
        const int of_team = worker % workers;
        run = {first_of_run(plan.length, plan.longer, of_team), first_of_run(plan.length, plan.longer, of_team + 1)};
        index = run.first / plan.tiles;
    }
    const int of_head = plan.row_tiles / plan.teams, head = index / of_head;
    run.end = min(run.end, of_head * p.kv_heads * p.batch * plan.tiles); // the last of whole Q tiles may be short //$ if split_cost > 0
    return {{head / p.kv_heads, head % p.kv_heads, (index % of_head * plan.teams + team) * BLOCK_M, plan.row_tiles, plan.teams,
             index * plan.tiles, (index + 1) * plan.tiles, 0},
            run};
}

// Returns the parts of the Q tile in which a block begins.
__device__ __forceinline__ Parts parts_of(const Plan &plan, const Start &start, int worker) {
    if (plan.splits > 0)
        return {worker / plan.splits * plan.splits, plan.splits, false};
    const int workers = plan.workers / plan.teams;
    return parts_of_runs(plan.length, plan.longer, start.tile, worker / workers * workers);
}

// Returns the next Q tile.
__device__ __forceinline__ Tile next_tile(const attention_params &p, Tile tile) {
    if (!advance(p, tile)) {
        tile.kv_head = 0;
        tile.batch++;
    }
    return tile;
}
