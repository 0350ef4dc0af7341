// The order of the work items of some heads, each with as many items. Blocks start in the order of their index, each as soon
// as an SM is free: so the order decides which items share the L2 cache, and which run last.
struct Place {
    unsigned head, order; // over all batches, of those that have tiles of their own; 0 is the heaviest item of a head
};

__device__ __forceinline__ int all_heads(const attention_params &p) { return tile_heads(p) * p.batch; }
