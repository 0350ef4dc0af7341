//$ needs block_n
//$ include "fragment/seen_keys.cuh"
//$ include "fragment/unit.cuh"

// Returns the mask bits of this thread's two rows for a K/V tile: keys below an end. Few tiles are masked, so no register keeps the end.
__device__ __forceinline__ Seen seen_of(const Unit &unit, int tile_n) {
    const int key = tile_n * BLOCK_N + unit.lane % 4 * 2, row = unit.row();
    return seen_below(key, {keys_end(unit.p, unit.at(row).query + 1), keys_end(unit.p, unit.at(row + 8).query + 1)});
}
