//$ needs block_n tile_rows skip_per_warpgroup
//$ include "expression/formula.cuh"

// The K/V tiles that queries go over, from the first to the last, where all they see is an interval; at least one, so that
// all take the same way.
struct KeyWalk {
    //$ if skip_per_warpgroup
    int unseen; // tiles before those, which only other units of the Q tile see
    //$ end
    int left;   // tiles to come
    //$ if skip_per_warpgroup
    int after;  // as unseen, behind those
    //$ end
    int tile;                 // the next one
    int full_first, full_end; // keys that all queries see
    bool whole;               // all queries see all keys of the tile that next_keys has returned
};

// The next K/V tile.
__device__ __forceinline__ int next_keys(const attention_params &, const Tile &, int, KeyWalk &walk) {
    walk.left--;
    walk.whole = walk.tile * BLOCK_N >= walk.full_first && (walk.tile + 1) * BLOCK_N <= walk.full_end;
    return walk.tile++;
}

// For so many queries from `query` on, those past the end aside. `otherwise`: the K/V tile, if they see none.
__device__ __forceinline__ KeyWalk walk_of_queries(const attention_params &p, const Tile &tile, int query, int count,
                                                   int otherwise) {
    const int q_first = position_of(p, min(query, p.len_q - 1)), q_last = position_of(p, min(query + count, p.len_q) - 1);
    const Keys keys = keys_of(p, {tile.batch, tile.head, tile.kv_head}, q_first, q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    const bool none = keys.end <= keys.first;
    KeyWalk walk = {};
    walk.left = none ? 1 : last - first + 1;
    walk.tile = none ? otherwise : first;
    walk.full_first = keys.full_first;
    walk.full_end = keys.full_end;
    return walk;
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_queries(p, tile, tile.query, TILE_ROWS, 0);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    //$ if skip_per_warpgroup
    const KeyWalk all = walk_of_tile(p, tile);
    KeyWalk walk = walk_of_queries(p, tile, tile.query + unit * 64, 64, all.tile);
    walk.unseen = walk.tile - all.tile;
    walk.after = all.left - walk.unseen - walk.left;
    return walk;
    //$ else
    return walk_of_tile(p, tile); // turns are taken alike
    //$ end
}

// For those of one unit, if there is a Q tile.
__device__ __forceinline__ void begin_walk(const attention_params &p, const Tile &tile, int unit, KeyWalk &walk) {
    if (tile.query >= 0)
        walk = walk_of_unit(p, tile, unit);
}
//$ if skip_per_warpgroup

// Adds the tiles before those of the unit, which only others see.
__device__ __forceinline__ void add_tiles_before(const Tile &tile, const KeyWalk &walk, int &unseen) {
    if (tile.query >= 0)
        unseen += walk.unseen;
}

// Tiles behind those of the unit, which only others see.
__device__ __forceinline__ int tiles_after(const attention_params &, const Tile &, int, const KeyWalk &walk) { return walk.after; }
//$ end
