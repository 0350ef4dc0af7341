//$ needs key_stages
//$ include "backward/items.cuh"

// A warp that loads nothing does its `work` for every item of the block, and arrives when it has finished with the item.
template <typename Work> __device__ __forceinline__ void help_with_items(SharedKeys &shared, Work work) {
#pragma unroll 1
    for (Ring<KEY_STAGES> items = {0};; items.count++) {
        const int stage = items.stage();
        barrier_wait(&shared.keys_full[stage], items.parity());
        if (shared.item[stage].key0 < 0)
            break;
        work(shared.item[stage]);
        __syncwarp(); // no lane reads the item any more
        if (elect_one())
            barrier_arrive(&shared.keys_empty[stage]);
    }
}
