// A consumer goes over all K/V tiles of its Q tile, also those that only the other one sees: they take turns.

// Take the next Q tile. False when there is none.
__device__ __forceinline__ bool take(Consumer &c) {
    const Tile tile = c.receive();
    c.begin_tile(tile);
    return tile.query >= 0;
}
__device__ __forceinline__ bool take_and_skip(Consumer &c) { return take(c); }
