//$ needs units skip_per_warpgroup
//$ include "walk/parts.cuh"

// The parts of a walk over a bitmap.

// The number of K/V tiles of all parts together.
__device__ __forceinline__ int tiles_of_walk(const attention_params &p, const Tile &tile) { return line_of(p, tile, UNITS)->left; }

// The tiles of a part, as a unit walks over it: tiles before its first one, its tiles, tiles after its last one.
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

// Computes the walk of a part: starts with the whole walk and skips the tiles of later keys.
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
