//$ needs tile_rows split_keys units skip_per_warpgroup layout
//$ include "walk/bitmap_launch.cuh"
//$ include "walk/parts.cuh" if split_keys > 0

// The K/V tiles of a Q tile, from the last to the first, from a bitmap in the workspace (walk/bitmap_launch.cuh). At least one,
// so that every Q tile runs the same code.
struct KeyWalk {
    int unseen; // tiles before the first of this unit, which only other units need //$ if skip_per_warpgroup
    int left;            // tiles left
    int word;            // of the map
    unsigned bits, full; // of it: tiles to come; those of which all queries see all keys
    bool whole;          // all queries see all keys of the tile that next_keys has returned
};

__device__ __forceinline__ MapLine *line_of(const attention_params &p, const Tile &tile, int unit) {
    const long long head = static_cast<long long>(tile.batch) * p.heads + tile.head;
    const int query = set_apart(tile.query); // else the compiler would keep addresses in registers from one use to the next
    //$ if layout == dense
    return map_line(p, head * ((p.len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit);
    //$ else
    return map_line(p, head * ((p.max_len_q + TILE_ROWS - 1) / TILE_ROWS) + query / TILE_ROWS, unit);
    //$ end
}

// The next K/V tile. `unit` is UNITS for the walk of the whole Q tile.
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

//$ if split_keys > 0
// The number of K/V tiles of all parts together.
__device__ __forceinline__ int tiles_of_walk(const attention_params &p, const Tile &tile) { return line_of(p, tile, UNITS)->left; }

// Of a part, as a unit walks over it: tiles before the first, tiles, tiles after the last.
struct Span {
    int unseen, left, after;
};

// `unit` is UNITS for the walk of the whole Q tile.
__device__ __forceinline__ Span span_of(const attention_params &p, const Tile &tile, int unit) {
    const MapLine *line = line_of(p, tile, unit);
    const int tiles = tiles_of_walk(p, tile);
    const Part part = part_of(p, tile.split, tiles);
    const int begin = tiles - part.end, end = tiles - part.first; // in the order of the walk
    const int first = min(max(begin, line->unseen), end - 1);     // at least one
    const int last = max(first, min(end, line->unseen + line->left) - 1);
    return {first - begin, last - first + 1, end - 1 - last};
}

// The walk of a part: from the start of the whole walk, past the tiles of later keys.
__device__ __forceinline__ KeyWalk walk_of_part(const attention_params &p, const Tile &tile, int unit) {
    const Span span = span_of(p, tile, unit);
    const MapLine *line = line_of(p, tile, UNITS);
    KeyWalk walk = {};
    walk.unseen = span.unseen; //$ if skip_per_warpgroup
    walk.left = span.left;
    walk.word = line->word;
    walk.bits = line->bits;
    int before = line->left - part_of(p, tile.split, line->left).end + span.unseen;
    for (int count; before >= (count = __popc(walk.bits));) {
        before -= count;
        walk.bits = line_of(p, tile, UNITS)->tiles()[--walk.word];
    }
    for (; before > 0; before--)
        walk.bits ^= 1u << (31 - __clz(static_cast<int>(walk.bits)));
    walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    return walk;
}

//$ end
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
    //$ if skip_per_warpgroup
    return walk_of_line(p, tile, unit);
    //$ else
    KeyWalk walk = walk_of_tile(p, tile); // all units of a pingpong pair take the same number of turns
    walk.full = line_of(p, tile, unit)->tiles()[walk.word];
    return walk;
    //$ end
}
//$ if skip_per_warpgroup

// Tiles after the last one of this unit, which only other units need. Read again, to keep no register for it.
__device__ __forceinline__ int tiles_after(const attention_params &p, const Tile &tile, int unit, const KeyWalk &) {
    return p.splits > 1 ? span_of(p, tile, unit).after : line_of(p, tile, unit)->after; //$ if split_keys > 0
    return line_of(p, tile, unit)->after;                                               //$ else
}
//$ end
