//$ needs mask block_n part_keys
//$ include "backward/pairs.cuh"

// Which tiles of the other side a block goes over: those of which some pair is seen. All threads ask together.

// A block's keys are divided into parts, and tiles are judged for each part.
constexpr int KEY_PARTS = BLOCK_N / PART_KEYS;

struct OtherTile {
    int index; // batch * heads + head
    int first;      // query; negative when there is no further tile
    unsigned whole; // a bit for each part of the keys: does every query of the tile see all of it?
};

//$ include "backward/other_tiles_custom.cuh" if mask == custom_mask else "backward/other_tiles_builtin.cuh"
