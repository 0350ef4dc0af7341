//$ include "backward/items.cuh"
//$ include "backward/other_tiles.cuh"

// Tiles of an item that a warp has found for the warp that loads them.
struct FoundTiles {
    Item item;
    QueryTiles tiles; // 32 of them; none needed only if the item has none at all
    bool last;        // true if no further tiles of the item are needed
    bool held;        // true until the other warp may find more
};
