// Only one of the two consumers at a time computes exponentials.
// They alternate over all items of the block: a consumer that passed two turns without taking one would complete the barrier by itself.
__device__ __forceinline__ void take_turn(int consumer) { named_barrier_sync(1 + consumer, 256); }
__device__ __forceinline__ void pass_turn(int consumer) { named_barrier_arrive(2 - consumer, 256); }
