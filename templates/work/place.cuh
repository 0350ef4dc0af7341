// The order of the work items of some heads, all with the same number of items. Blocks start in the order of their
// index, each as soon as an SM is free. So the order decides which items share the L2 cache, and which run last.
struct Place {
    unsigned head, order; // head over all batches, among those with Q tiles of their own; order: 0 is the heaviest item of a head
};

__device__ __forceinline__ int all_heads(const attention_params &p) { return tile_heads(p) * p.batch; }
