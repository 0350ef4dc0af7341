// The order of the work items.
struct Place {
    int head, order; // of tile_heads and batches; 0 is the heaviest of the `items` of a head
};

// Head after head, from the first queries to the last.
__device__ __forceinline__ Place place_of(const attention_params &, int items, int item) {
    return {item / items, items - 1 - item % items};
}
