// Two consumers multiply in turn: the softmax of one overlaps the products of the other.

__device__ __forceinline__ void take_turn(int consumer) {
    named_barrier_sync(1 + consumer, 256);
}
__device__ __forceinline__ void pass_turn(int consumer) {
    named_barrier_arrive(2 - consumer, 256);
}

// Called before the first turn and after the last one.
__device__ __forceinline__ void begin_turns(int consumer) {
    if (consumer == 1)
        named_barrier_arrive(1, 256); // warpgroup 0 takes the first turn
}
__device__ __forceinline__ void end_turns(int consumer) {
    if (consumer == 0)
        named_barrier_sync(1, 256); // take the last turn, which the other warpgroup hands over
}
