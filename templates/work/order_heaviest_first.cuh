// Which item of work comes when.
struct Place {
    int head, order; // over all batches, of those that have tiles of their own; 0 is the heaviest item of a head
};

// The heaviest item of every head, then the second of every head, and so on.
__device__ __forceinline__ Place place_of(const attention_params &p, int, int item) {
    int heads = tile_heads(p) * p.batch;
    return {item % heads, item / heads};
}
