// Which item of work comes when.
struct Place {
    int head, order; // over all batches, of those that have tiles of their own; 0 is the heaviest item of a head
};

// Head after head, from the first queries to the last.
__device__ __forceinline__ Place place_of(const attention_params &, int items, int item) {
    return {item / items, items - 1 - item % items};
}
