//$ needs block_n
//$ include "fragment/seen_keys.cuh"
//$ include "fragment/unit.cuh"

// Masks under which a query sees an interval of keys.

// Returns the mask bits of the keys in [first[row], end[row]).
__device__ __forceinline__ Seen seen_between(int key, const int (&first)[2], const int (&end)[2]) {
    Seen seen = seen_below(key, end), before = seen_below(key, first);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < Seen::WORDS; i++)
            seen.bits[r][i] &= ~before.bits[r][i];
    return seen;
}

// Returns the mask bits of this thread's two rows for a K/V tile.
__device__ __forceinline__ Seen seen_of(const Unit &unit, int tile_n) {
    const int key = tile_n * BLOCK_N + unit.lane % 4 * 2;
    const int row = unit.row(), upper = unit.position(row), lower = unit.position(row + 8);
    const Keys keys[2] = {keys_of(unit.p, unit.where, upper, upper), keys_of(unit.p, unit.where, lower, lower)};
    return seen_between(key, {keys[0].first, keys[1].first}, {keys[0].end, keys[1].end});
}
