// A consumer visits all K/V tiles of its Q tile, even those that only the other consumer sees, because the two take turns.

// Takes the next Q tile. False if there is none.
__device__ __forceinline__ bool take(Consumer &c) {
    const Tile tile = c.receive();
    c.begin_tile(tile);
    return tile.query >= 0;
}
__device__ __forceinline__ bool take_and_skip(Consumer &c) { return take(c); }
