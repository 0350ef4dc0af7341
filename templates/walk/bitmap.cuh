//$ needs tile_rows split_keys units skip_per_warpgroup layout
//$ include "walk/bitmap_launch.cuh"

// The K/V tiles that a Q tile visits, from the last to the first, read from a bitmap in the workspace
// (walk/bitmap_launch.cuh). There is at least one, so that every Q tile runs the same code.
struct KeyWalk {
    int unseen; // tiles before the first of this unit, which only other units need //$ if skip_per_warpgroup
    int left;            // tiles left
    int word;            // index of the current word of the map
    unsigned bits, full; // bits of that word: tiles left; tiles of which all queries see all keys
    bool whole;          // all queries see all keys of the tile that next_keys has returned
};

__device__ __forceinline__ MapLine *line_of(const attention_params &p, const Tile &tile, int unit) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const int query = opaque(tile.query); // otherwise the compiler would keep addresses in registers from one use to the next
    return map_line(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit);     //$ if layout == dense
    return map_line(p, head * ((p.max_len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit); //$ else
}

// Returns the next K/V tile. `unit` is UNITS for the walk of the whole Q tile.
__device__ __forceinline__ int next_keys(const attention_params &p, const Tile &tile, int unit, KeyWalk &walk) {
    while (walk.bits == 0) {
        walk.word--;
        walk.bits = line_of(p, tile, UNITS)->tiles()[walk.word];
        walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    }
    int bit = 31 - __clz(static_cast<int>(walk.bits));
    walk.bits ^= 1u << bit;
    walk.left--;
    walk.whole = walk.full >> bit & 1;
    return walk.word * 32 + bit;
}

//$ include "walk/parts_of_bitmap.cuh" if split_keys > 0

__device__ __forceinline__ KeyWalk walk_of_line(const attention_params &p, const Tile &tile, int unit) {
    //$ if split_keys > 0
    if (p.splits > 1)
        return walk_of_part(p, tile, unit);
    //$ end
    const MapLine *line = line_of(p, tile, unit);
    return {line->unseen, line->left, line->word, line->bits, line->full, false}; //$ if skip_per_warpgroup
    return {line->left, line->word, line->bits, line->full, false};               //$ else
}

// The walk of a whole Q tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_line(p, tile, UNITS);
}

// The walk of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    return walk_of_line(p, tile, unit); //$ if skip_per_warpgroup
    //$ if not skip_per_warpgroup
    KeyWalk walk = walk_of_tile(p, tile); // all units of a pingpong pair take the same number of turns
    walk.full = line_of(p, tile, unit)->tiles()[walk.word];
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

// Returns the number of tiles after this unit's last one, which only other units need. It is read again to save a register.
__device__ __forceinline__ int tiles_after(const attention_params &p, const Tile &tile, int unit, const KeyWalk &) {
    return p.splits > 1 ? span_of(p, tile, unit).after : line_of(p, tile, unit)->after; //$ if split_keys > 0
    return line_of(p, tile, unit)->after;                                               //$ else
}
