//$ needs by_cluster has_roles
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// The result depends on the order of additions. So a consumer adds dQ of a step when one of ORDER_WARPS warps, which take turns with the
// steps, says that dQ of all keys before its own has been added. Blocks take the tiles of a head in the order of their keys, so the warp
// waits only for blocks that have begun. It asks memory while dQ is multiplied, and tells the others when the addition is complete, for
// which the consumer need not wait.

// Called by one thread of the block.
__device__ __forceinline__ void init_order(SharedKeys &shared) {
    for (DqOrder &order : shared.dq_order) {
        barrier_init(&order.asked, 1);
        barrier_init(&order.allowed, 1);
        barrier_init(&order.added, 4); // warps of the consumer
    }
}

// Runs in the warp, until the consumer ends the order.
__device__ __forceinline__ void keep_order(const attention_params &p, DqOrder &order) {
    if (!elect_one())
        return;
#pragma unroll 1
    for (Ring<1> ring = {0};; ring.count++) {
        barrier_wait(&order.asked, ring.parity());
        const DqPlace place = order.place;
        if (place.tile < 0)
            break;
        int *const added = key_tiles_added(p, 64ll * place.tile + cluster_rank()); // of this block's columns //$ if by_cluster
        int *const added = key_tiles_added(p, 64ll * place.tile); //$ else
        await_count(added, place.before);
        barrier_arrive(&order.allowed);
        barrier_wait(&order.added, ring.parity());
        add_release(added, 1); // publishes what all threads of the consumer have added
    }
}

// Asks a warp when dQ of a step may be added. Called by all threads of the consumer, which have waited for the warp's answer to the
// question before, if there was one: so the warp has read its place.
__device__ __forceinline__ void ask_for_order(DqOrder &order, DqPlace place) {
    if (threadIdx.x % 128 == 0) {
        order.place = place;
        barrier_arrive(&order.asked);
    }
}
// Tells a warp to stop.
__device__ __forceinline__ void end_order(DqOrder &order) { ask_for_order(order, {-1}); }
//$ if has_roles

// The warps take turns with the steps, which count from 0.
__device__ __forceinline__ DqOrder &order_of_step(SharedKeys &shared, int step) { return shared.dq_order[step % ORDER_WARPS]; }
// Waits until the warp of a step has answered.
__device__ __forceinline__ void await_order(SharedKeys &shared, int step) {
    barrier_wait(&order_of_step(shared, step).allowed, step / ORDER_WARPS & 1);
}
//$ end
