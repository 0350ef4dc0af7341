//$ needs mask block_n split_keys skip_per_warpgroup
//$ include "walk/keys_seen.cuh"
//$ include "walk/parts.cuh" if split_keys > 0

// The K/V tiles that a Q tile visits, from the last to the first, so masked tiles come first. A Q tile visits at least
// one, so that every Q tile runs the same code.
struct KeyWalk {
    int unseen;   // tiles before the first of this unit, which only other units need //$ if skip_per_warpgroup
    int left;     // tiles left
    int unmasked; // all queries see all keys of the tiles below this one
    int first;    // first tile of the part; the others are counted from it //$ if split_keys > 0
    bool whole;   // all queries see all keys of the tile that next_keys has returned
};

// Returns one past the last key that any query below `query_end` sees; `query_end` may be past the end of Q.
__device__ __forceinline__ int keys_end(const attention_params &p, int query_end) {
    return min(p.len_kv, keys_seen(p, query_end - 1));
}

__device__ __forceinline__ int key_tiles(const attention_params &p, int query, int count) {
    return max(1, (keys_end(p, min(query + count, p.len_q)) + BLOCK_N - 1) / BLOCK_N);
}

__device__ __forceinline__ int tiles_of_walk(const attention_params &p, const Tile &tile) {
    return key_tiles(p, tile.query, queries_of_tile(p));
}

// The walk of a whole Q tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    KeyWalk walk = {};
    walk.left = tiles_of_walk(p, tile); //$ if split_keys == 0
    //$ if split_keys > 0
    const Part part = part_of(p, tile.split, tiles_of_walk(p, tile));
    walk.first = part.first;
    walk.left = part.end - part.first;
    //$ end
    return walk;
}

// The walk of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    const int first = tile.query + unit * queries_of_unit(p);
    KeyWalk walk = walk_of_tile(p, tile);
    //$ if skip_per_warpgroup
    if (tile.query >= 0) // otherwise there is no tile, and nothing to skip
        walk.unseen = walk.left - max(1, min(walk.left, first < p.len_q ? key_tiles(p, first, queries_of_unit(p)) - walk.first : 1)); //$ if split_keys > 0
        walk.unseen = walk.left - (first < p.len_q ? key_tiles(p, first, queries_of_unit(p)) : 1);                                    //$ else
    walk.left -= walk.unseen;
    //$ end
    walk.unmasked = max(0, keys_end(p, first + 1) - 1) / BLOCK_N; // perhaps one masked tile more than needed: after it every row has an m //$ if mask == causal
    walk.unmasked = keys_end(p, first + 1) / BLOCK_N;                                                                                      //$ else
    walk.unmasked -= walk.first; //$ if split_keys > 0
    walk.unmasked = min(walk.unmasked, walk.left - 1); // the first tile of every part is masked: it gives every row an m //$ if split_keys > 0 and mask == causal
    return walk;
}

// Computes the walk of a unit of the Q tile that was handed out last. If there is none, the walk is computed anyway, without a branch.
__device__ __forceinline__ void begin_walk(const attention_params &p, const Tile &tile, int unit, KeyWalk &walk) {
    walk = walk_of_unit(p, tile, unit);
}

// Adds the number of tiles before the unit's first one, which only other units need.
__device__ __forceinline__ void add_tiles_before(const Tile &, const KeyWalk &walk, int &unseen) { unseen += walk.unseen; }

// Returns the number of tiles after the unit's last one, which only other units need: 0, since all units see the first key.
__device__ __forceinline__ int tiles_after(const attention_params &, const Tile &, int, const KeyWalk &) { return 0; }

// Returns the next K/V tile.
__device__ __forceinline__ int next_keys(const attention_params &, const Tile &, int, KeyWalk &walk) {
    walk.left--;
    walk.whole = walk.left < walk.unmasked;
    return walk.first + walk.left; //$ if split_keys > 0
    return walk.left;              //$ else
}
