//$ needs mask block_n part_keys
//$ include "backward/pairs.cuh"

// Which tiles of the other side a block loops over: those with a pair that is seen. All threads call these functions together.

// A block's keys are divided into parts, and tiles are judged for each part.
constexpr int KEY_PARTS = BLOCK_N / PART_KEYS;

struct OtherTile {
    int index; // batch * heads + head
    int first;      // first query; negative if there is no further tile
    unsigned whole; // one bit per part of the keys: set if every query of the tile sees all of it
};

//$ include "backward/other_tiles_custom.cuh" if mask == custom_mask else "backward/other_tiles_builtin.cuh"
