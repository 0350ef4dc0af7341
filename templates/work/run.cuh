//$ needs block_m apart batch_invariant

// The K/V tiles of all Q tiles form one row: sequence after sequence, K/V head after K/V head, Q tile after Q tile.
// Each block takes a run of it. Runs have the same length and begin anywhere, so that all blocks end at the same
// time. But if there are at least twice as many blocks as Q tiles, each Q tile is split among blocks of its own:
// merging the warps twice would cost such a short run more than it gains.
// If there are many short Q tiles, each warp takes a run of its own and never waits for the others. //$ if apart
//$ if batch_invariant == 0
//
// The Q tiles of a K/V head read the same K/V tiles. Up to 4 teams of blocks share these Q tiles, and each team has a row of its own.
// Block i of every team has the same run, so the teams read a K/V tile at the same time, and it is read from memory once for all of them.
//$ end
struct Run {
    int first, end;
    int warps; // warps that share it: all warps of a block, or one //$ if apart
};

// A Q tile: BLOCK_M rows that share a K/V head.
struct Tile {
    int batch, kv_head;
    int row;        // its first row, among those of the group
    int row_tiles;  // Q tiles of the K/V head
    int teams;      // that share them, with a row of K/V tiles each //$ if batch_invariant == 0
    int first, end; // its K/V tiles in the row of all K/V tiles
    //$ if batch_invariant == 0
    int cost;       // gap before them: as many K/V tiles as take the time of a change of the Q tile
    //$ end
};

// Where a block begins.
struct Start {
    Tile tile;
    Run run;
};

// The consecutive blocks, or warps, that have a part of a Q tile.
struct Parts {
    int first, count;
    bool begins_before; // the run of the first one begins before the Q tile
};

//$ if batch_invariant == 0
// Returns the number of teams. Each K/V head of a sequence has a multiple of `row_tiles` Q tiles.
__device__ __forceinline__ int teams_of(int row_tiles, int blocks) {
    for (int teams = 4; teams > 1; teams--)
        if (row_tiles % teams == 0 && blocks % teams == 0)
            return teams;
    return 1;
}

//$ end
// Equal runs: the first `longer` runs have one K/V tile more than `length`. `team`: the first block of the team.
__device__ __forceinline__ int first_of_run(int length, int longer, int worker) { return worker * length + min(worker, longer); }
__device__ __forceinline__ Parts parts_of_runs(int length, int longer, const Tile &tile, int team) {
    const int of_longer = longer * (length + 1), last = tile.end - 1;
    const int from = tile.first < of_longer ? tile.first / (length + 1) : longer + (tile.first - of_longer) / length;
    const int to = last < of_longer ? last / (length + 1) : longer + (last - of_longer) / length;
    return {team + from, to - from + 1, first_of_run(length, longer, from) < tile.first};
}

//$ if batch_invariant == 0
// True if the run ends before the next Q tile.
__device__ __forceinline__ bool is_last(const Run &run, const Tile &tile) { return tile.end + tile.cost >= run.end; }

// Advances to the next Q tile of the same sequence and team; false if there is none.
__device__ __forceinline__ bool advance(const attention_params &p, Tile &tile) {
    const int tiles = tile.end - tile.first;
    tile.first = tile.end + tile.cost;
    tile.end = tile.first + tiles;
    tile.row += tile.teams * BLOCK_M;
    if (tile.row < tile.row_tiles * BLOCK_M)
        return true;
    tile.row -= tile.row_tiles * BLOCK_M;
    tile.kv_head++;
    return tile.kv_head < p.kv_heads;
}
//$ else
// A run lies in one Q tile.
__device__ __forceinline__ bool is_last(const Run &, const Tile &) { return true; }
//$ end

// A row of a Q tile.
__device__ __forceinline__ Row row_of(const attention_params &p, const Tile &tile, int row) {
    return row_of_group(p, tile.kv_head, tile.row + row);
}
__device__ __forceinline__ int first_query(const attention_params &p, const Tile &tile) {
    return tile.row / rows_of_query(p);
}
__device__ __forceinline__ int last_query(const attention_params &p, const Tile &tile) {
    return (min(tile.row + BLOCK_M, rows_of_group(p)) - 1) / rows_of_query(p);
}
