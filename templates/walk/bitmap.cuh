//$ include "walk/bitmap_launch.cuh"

// The tiles of keys that queries go over, from the last to the first, as a map of bits in the workspace has them
// (walk/bitmap_launch.cuh); at least one, so that all take the same way.
struct KeyWalk {
    //$ if units_apart
    int unseen; // tiles before those, which only other units of the tile of queries see
    //$ end
    int left;            // tiles to come
    int word;            // of the map
    unsigned bits, full; // of it: tiles to come; those of which all queries see all keys
    bool whole;          // all queries see all keys of the tile that next_keys has returned
};

__device__ __forceinline__ MapLine *line_of(const attention_params &p, const Tile &tile, int unit) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const int query = set_apart(tile.query); // or addresses would be kept from one use to the next
    return map_line(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit);
}

// The next tile of keys; the unit is UNITS for all of them.
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

__device__ __forceinline__ KeyWalk walk_of_line(const attention_params &p, const Tile &tile, int unit) {
    const MapLine *line = line_of(p, tile, unit);
    //$ if units_apart
    return {line->unseen, line->left, line->word, line->bits, line->full, false};
    //$ else
    return {line->left, line->word, line->bits, line->full, false};
    //$ end
}

// For all queries of the tile.
__device__ __forceinline__ KeyWalk walk_of_tile(const attention_params &p, const Tile &tile) {
    return walk_of_line(p, tile, UNITS);
}

// For those of one unit.
__device__ __forceinline__ KeyWalk walk_of_unit(const attention_params &p, const Tile &tile, int unit) {
    //$ if units_apart
    return walk_of_line(p, tile, unit);
    //$ else
    KeyWalk walk = walk_of_tile(p, tile); // turns are taken alike
    walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    return walk;
    //$ end
}
//$ if units_apart

// Tiles behind those of the unit, which only others see. Read once more, rather than kept.
__device__ __forceinline__ int tiles_after(const attention_params &p, const Tile &tile, int unit, const KeyWalk &) {
    return line_of(p, tile, unit)->after;
}
//$ end
