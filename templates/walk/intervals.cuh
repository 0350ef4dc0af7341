//$ needs block_n tile_rows split_keys skip_per_warpgroup
//$ include "expression/formula.cuh"
//$ include "walk/parts.cuh" if split_keys > 0

// The K/V tiles that a Q tile visits, from the last to the first, for masks under which each query sees an interval
// of keys. There is at least one, so that every Q tile runs the same code.
struct KeyWalk {
    int unseen; // tiles before the first of this unit, which only other units need //$ if skip_per_warpgroup
    int left;   // tiles left
    int after;  // tiles after the last of this unit, which only other units need //$ if skip_per_warpgroup
    int tile;                 // the next one
    int full_first, full_end; // keys that all queries see
    bool whole;               // all queries see all keys of the tile that next_keys has returned
};

// Returns the next K/V tile.
__device__ __forceinline__ int next_keys(const attention_params &, const Tile &, int, KeyWalk &walk) {
    walk.left--;
    walk.whole = walk.tile * BLOCK_N >= walk.full_first && (walk.tile + 1) * BLOCK_N <= walk.full_end;
    return walk.tile--;
}

// Returns the walk of `count` queries from `query` on, without those past the end. `otherwise`: the K/V tile to visit if they see no key.
__device__ __forceinline__ KeyWalk walk_of_queries(const attention_params &p, const Tile &tile, int query, int count,
                                                   int otherwise) {
    const int q_first = position_of(p, min(query, p.len_q - 1)), q_last = position_of(p, min(query + count, p.len_q) - 1);
    const Keys keys = keys_of(p, {tile.batch, tile.head, tile.kv_head}, q_first, q_last);
    const int first = keys.first / BLOCK_N, last = (keys.end - 1) / BLOCK_N;
    const bool none = keys.end <= keys.first;
    KeyWalk walk = {};
    walk.left = none ? 1 : last - first + 1;
    walk.tile = none ? otherwise : last;
    walk.full_first = keys.full_first;
    walk.full_end = keys.full_end;
    return walk;
}

// The number of K/V tiles of all parts together.
__device__ __forceinline__ int tiles_of_walk(const attention_params &p, const Tile &tile) {
    return walk_of_queries(p, tile, tile.query, TILE_ROWS, 0).left;
}

// The walk of a whole Q tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_queries(p, tile, tile.query, TILE_ROWS, 0); //$ if split_keys == 0
    //$ if split_keys > 0
    KeyWalk walk = walk_of_queries(p, tile, tile.query, TILE_ROWS, 0);
    const Part part = part_of(p, tile.split, walk.left);
    walk.tile -= walk.left - part.end;
    walk.left = part.end - part.first;
    return walk;
    //$ end
}

// The walk of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    return walk_of_tile(p, tile); // all units of a pingpong pair take the same number of turns //$ if not skip_per_warpgroup
    //$ if skip_per_warpgroup
    const KeyWalk all = walk_of_tile(p, tile);
    KeyWalk walk = walk_of_queries(p, tile, tile.query + unit * 64, 64, all.tile);
    //$ if split_keys > 0
    const int before = max(walk.tile - walk.left, all.tile - all.left); // the tile before the unit's first one in this part
    walk.tile = min(walk.tile, all.tile);
    walk.left = walk.tile - before;
    if (walk.left < 1) // it sees nothing of this part
        walk.left = 1, walk.tile = all.tile;
    //$ end
    walk.unseen = all.tile - walk.tile;
    walk.after = all.left - walk.unseen - walk.left;
    return walk;
    //$ end
}

// Computes the walk of a unit of the Q tile that was handed out last. If there is no such tile, there is nothing to compute it from.
__device__ __forceinline__ void begin_walk(const attention_params &p, const Tile &tile, int unit, KeyWalk &walk) {
    if (tile.query >= 0)
        walk = walk_of_unit(p, tile, unit);
}

// Adds the number of tiles before the unit's first one, which only other units need.
__device__ __forceinline__ void add_tiles_before(const Tile &tile, const KeyWalk &walk, int &unseen) {
    if (tile.query >= 0)
        unseen += walk.unseen;
}

// Returns the number of tiles after this unit's last one, which only other units need.
__device__ __forceinline__ int tiles_after(const attention_params &, const Tile &, int, const KeyWalk &walk) { return walk.after; }
