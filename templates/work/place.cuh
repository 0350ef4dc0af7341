// The order of the work items: item number `item` is `order` of `head`. Blocks start in the order of their index, each as soon
// as an SM is free: so the order decides which items share the L2 cache, and which run last.
struct Place {
    int head, order; // of tile_heads and batches; 0 is the heaviest of the `items` of a head
};
