//$ needs mask
//$ include "backward/weigh_tile.cuh"

// Which tiles of the other side a block goes over: those of which some pair is seen. All threads ask together.

struct OtherTile {
    int index; // batch * heads + head
    int first; // query; negative when there is no further tile
};

// Tiles of STEP_M queries of `left` heads from `index` on, which share the keys from key0 on.
struct QueryTiles {
    int index, left, query, key0;
};
//$ include "backward/other_tiles_custom.cuh" if mask == custom_mask else "backward/other_tiles_builtin.cuh"
