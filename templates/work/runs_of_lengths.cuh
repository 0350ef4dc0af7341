//$ needs block_m block_n least_run apart layout
//$ include "work/run.cuh"

// Runs for sequences that have lengths of their own, which stay on the device: each warp finds its run, or that of its block,
// from them. A run of many short Q tiles takes longer than one of few long ones, so each Q tile is charged a few extra K/V tiles.
struct Plan {
    //$ if apart
    int workers; // blocks, or warps, that have a run
    int warps;   // that share a run: all warps of a block, or one
    //$ else
    int workers; // blocks that have a run
    //$ end
    int teams;   // of blocks
    bool splits; // a Q tile is split among blocks of its own; else runs begin anywhere
    int cost;    // extra K/V tiles charged for each Q tile, unless it is split
    int length;  // K/V tiles of a run ...
    int longer;  // ... and one more in this many first ones
};

// The tiles of a sequence: Q tiles of all K/V heads, and K/V tiles of each Q tile.
struct Tiles {
    int q_tiles, tiles;
    // Returns how many runs of `length` K/V tiles it has, if each run lies in one Q tile.
    __device__ __forceinline__ int runs(int length) const { return q_tiles * ((tiles + length - 1) / length); }
};
__device__ __forceinline__ Tiles tiles_of_sequence(const attention_params &all, int batch) {
    const attention_params p = sequence_of(all, min(batch, all.batch - 1));
    const int q_tiles = (rows_of_group(p) + BLOCK_M - 1) / BLOCK_M * p.kv_heads;
    return {batch < all.batch ? q_tiles : 0, max(1, (p.len_kv + BLOCK_N - 1) / BLOCK_N)};
}

__device__ __forceinline__ int sum_of_warp(int x) {
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}
__device__ __forceinline__ int runs_of_all(const attention_params &all, int length) {
    int runs = 0;
#pragma unroll 1
    for (int batch = threadIdx.x % 32; batch < all.batch; batch += 32)
        runs += tiles_of_sequence(all, batch).runs(length);
    return sum_of_warp(runs);
}

// To be called by all lanes of a warp. Each run has at least LEAST_RUN K/V tiles, unless there are too few.
__device__ __forceinline__ Plan plan_of(const attention_params &all, int blocks) {
    int q_tiles = 0, tiles = 0;
#pragma unroll 1
    for (int batch = threadIdx.x % 32; batch < all.batch; batch += 128)
#pragma unroll
        for (int more = 0; more < 128; more += 32) { // their lengths are loaded at the same time
            const Tiles of = tiles_of_sequence(all, batch + more);
            q_tiles += of.q_tiles;
            tiles += of.q_tiles * of.tiles;
        }
    q_tiles = sum_of_warp(q_tiles), tiles = sum_of_warp(tiles);
    const Workers workers = workers_of(blocks, q_tiles, tiles);
    Plan plan = {};
    plan.teams = 1;
    plan.warps = workers.warps; //$ if apart
    if (q_tiles == 0)
        return plan;
    if (2 * q_tiles > blocks) {
        plan.cost = workers.cost;
        //$ if layout == ragged
        const int row_tiles = rows_of_query(all) % BLOCK_M == 0 ? rows_of_query(all) / BLOCK_M : 1;
        //$ else
        const int row_tiles = (rows_of_group(all) + BLOCK_M - 1) / BLOCK_M;
        //$ end
        plan.teams = teams_of(row_tiles, workers.most);
        const int of_team = (tiles + q_tiles * plan.cost) / plan.teams;
        const int runs = min(workers.most / plan.teams, (of_team + workers.least_run - 1) / workers.least_run);
        plan.workers = plan.teams * runs;
        plan.length = of_team / runs;
        plan.longer = of_team % runs;
        return plan;
    }
    // The shortest runs for which there are enough blocks; the last try always fits.
    int length = max(LEAST_RUN, (tiles + blocks - 1) / blocks), runs = runs_of_all(all, length);
#pragma unroll 1
    for (int tries = 0; runs > blocks; tries++) {
        length = tries < 3 ? length + max(1, length * (runs - blocks) / blocks) : (tiles + blocks - q_tiles - 1) / (blocks - q_tiles);
        runs = runs_of_all(all, length);
    }
    plan.workers = runs;
    plan.splits = true;
    plan.length = length;
    return plan;
}

// To be called by all lanes of a warp, which look at 32 sequences at a time.
__device__ __forceinline__ Start start_of(const attention_params &all, const Plan &plan, int worker) {
    const int lane = threadIdx.x % 32, workers = plan.workers / plan.teams, team = worker / workers;
    const int wanted = plan.splits ? worker : first_of_run(plan.length, plan.longer, worker % workers);
    int before = 0; // runs, or K/V tiles, of all sequences before this one
#pragma unroll 1
    for (int batch = 0;; batch += 32) {
        const Tiles of = tiles_of_sequence(all, batch + lane);
        const int own = plan.splits ? of.runs(plan.length) : of.q_tiles / plan.teams * (plan.cost + of.tiles);
        int sum = own; // sum over the sequences up to that of this lane
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const int more = __shfl_up_sync(0xffffffffu, sum, lanes);
            sum += lane >= lanes ? more : 0;
        }
        const unsigned reached = __ballot_sync(0xffffffffu, before + sum > wanted);
        if (reached == 0) {
            before += __shfl_sync(0xffffffffu, sum, 31);
            continue;
        }
        const int found = __ffs(static_cast<int>(reached)) - 1;
        before += __shfl_sync(0xffffffffu, sum - own, found);
        const int row_tiles = __shfl_sync(0xffffffffu, of.q_tiles, found) / all.kv_heads;
        const int tiles = __shfl_sync(0xffffffffu, of.tiles, found);
        const int of_tile = plan.splits ? (tiles + plan.length - 1) / plan.length : plan.cost + tiles;
        const int index = (wanted - before) / of_tile, of_head = row_tiles / plan.teams;
        const int row = (index % of_head * plan.teams + team) * BLOCK_M;
        Start start = {{batch + found, index / of_head, row, row_tiles, plan.teams, 0, tiles, plan.cost}, {}};
        start.run.warps = plan.warps; //$ if apart
        if (plan.splits) { // K/V tiles are counted from the Q tile
            start.run.first = (wanted - before) % of_tile * plan.length;
            start.run.end = min(start.run.first + plan.length, tiles);
        } else {
            start.tile.first = before + index * of_tile + plan.cost;
            start.tile.end = start.tile.first + tiles;
            start.run.first = wanted; // may lie in the gap before the Q tile
            start.run.end = first_of_run(plan.length, plan.longer, worker % workers + 1);
        }
        return start;
    }
}

// Returns the parts of the Q tile in which a run begins.
__device__ __forceinline__ Parts parts_of(const Plan &plan, const Start &start, int worker) {
    if (plan.splits)
        return {worker - start.run.first / plan.length, (start.tile.end + plan.length - 1) / plan.length, false};
    const int workers = plan.workers / plan.teams;
    return parts_of_runs(plan.length, plan.longer, start.tile, worker / workers * workers);
}

// Returns the next Q tile, which must exist.
__device__ __forceinline__ Tile next_tile(const attention_params &all, Tile tile) {
    if (advance(all, tile))
        return tile;
    Tiles of = {0, 0};
    while (of.q_tiles == 0)
        of = tiles_of_sequence(all, ++tile.batch);
    tile.kv_head = 0;
    tile.row_tiles = of.q_tiles / all.kv_heads;
    tile.end = tile.first + of.tiles;
    return tile;
}
