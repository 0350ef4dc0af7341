//$ needs block_m apart batch_invariant

// The K/V tiles of all Q tiles stand in one row: sequence after sequence, K/V head after K/V head, Q tile after Q tile. Each block
// takes a run of them. Runs are equally long and begin anywhere, so that all blocks end at the same time; but where blocks are at
// least twice as many as Q tiles, a Q tile is split among blocks of its own: merging the warps twice would cost such a short
// run more than it gains.
// Where Q tiles are many and short, each warp takes a run of its own: it never waits for the others. //$ if apart
//$ if batch_invariant == 0
//
// The Q tiles of a K/V head read the same K/V tiles. Up to 4 teams of blocks share them, with a row each: block i of every team
// has the same run, so the teams read a K/V tile at the same time, and the memory is read once for all of them.
//$ end
struct Run {
    int first, end;
    int warps; // that share it: all warps of a block, or one //$ if apart
};

// A Q tile: BLOCK_M rows that share a K/V head.
struct Tile {
    int batch, kv_head;
    int row;        // its first, of those of the group
    int row_tiles;  // Q tiles of the K/V head
    int teams;      // that share them, with a row of K/V tiles each //$ if batch_invariant == 0
    int first, end; // its K/V tiles in the row of all
    //$ if batch_invariant == 0
    int cost;       // room before them, in K/V tiles, which take as long as a change of the Q tile
    //$ end
};

// Where a block begins.
struct Start {
    Tile tile;
    Run run;
};

// The blocks, or warps, that have a part of a Q tile, one after the other.
struct Parts {
    int first, count;
    bool begins_before; // the run of the first one
};

//$ if batch_invariant == 0
// How many teams there are: each K/V head of a sequence has a multiple of `row_tiles` Q tiles.
__device__ __forceinline__ int teams_of(int row_tiles, int blocks) {
    for (int teams = 4; teams > 1; teams--)
        if (row_tiles % teams == 0 && blocks % teams == 0)
            return teams;
    return 1;
}

//$ end
// Equal runs: the first `longer` ones have a K/V tile more than `length`. `team`: its first block.
__device__ __forceinline__ int first_of_run(int length, int longer, int worker) { return worker * length + min(worker, longer); }
__device__ __forceinline__ Parts parts_of_runs(int length, int longer, const Tile &tile, int team) {
    const int of_longer = longer * (length + 1), last = tile.end - 1;
    const int from = tile.first < of_longer ? tile.first / (length + 1) : longer + (tile.first - of_longer) / length;
    const int to = last < of_longer ? last / (length + 1) : longer + (last - of_longer) / length;
    return {team + from, to - from + 1, first_of_run(length, longer, from) < tile.first};
}

//$ if batch_invariant == 0
// Does the run end before the Q tile behind this one?
__device__ __forceinline__ bool is_last(const Run &run, const Tile &tile) { return tile.end + tile.cost >= run.end; }

// The next Q tile of the same sequence and team; false when there is none.
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
// A run is of one Q tile.
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
