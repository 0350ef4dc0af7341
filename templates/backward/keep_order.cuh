//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// The result depends on the order of additions. So the third consumer adds dQ of a step when one of ORDER_WARPS warps, which take turns
// with the steps, says that dQ of all keys before its own has been added. Blocks take the tiles of a head in the order of their keys, so
// the warp waits only for blocks that have begun. It asks memory while dQ is multiplied, and tells the others when the addition is
// complete, for which the consumer need not wait.
__device__ __forceinline__ void keep_order(const attention_params &p, SharedKeys &shared, int warp) {
    if (!elect_one())
        return;
#pragma unroll 1
    for (Ring<1> ring = {0};; ring.count++) {
        barrier_wait(&shared.dq_asked[warp], ring.parity());
        const DqPlace place = shared.dq_place[warp];
        if (place.tile < 0)
            break;
        int *const added = key_tiles_added(p, 64ll * place.tile);
        await_count(added, place.before);
        barrier_arrive(&shared.dq_allowed[warp]);
        barrier_wait(&shared.dq_added[warp], ring.parity());
        add_release(added, 1); // publishes what all threads of the consumer have added
    }
}

// Asks a warp when dQ of a step may be added. Called by all threads of the consumer, which have waited for the warp's answer to the
// question before, if there was one: so the warp has read its place.
__device__ __forceinline__ void ask_for_order(SharedKeys &shared, int warp, DqPlace place) {
    if (threadIdx.x % 128 == 0) {
        shared.dq_place[warp] = place;
        barrier_arrive(&shared.dq_asked[warp]);
    }
}
// Tells the warps to stop.
__device__ __forceinline__ void end_order(SharedKeys &shared) {
    for (int warp = 0; warp < ORDER_WARPS; warp++)
        ask_for_order(shared, warp, {-1});
}
