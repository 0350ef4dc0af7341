//$ needs block_n dq_in_turn dq_ordered
//$ include "backward/store_d_s.cuh"

// How a consumer shares its dS, and multiplies and sends its part of dQ, where S of the next step is multiplied ahead.

// Number of dS tiles that the consumer has shared before this step: one per step, except for the last step of each item.
template <bool DK, bool DV> __device__ __forceinline__ int shared_tiles(const KeysConsumer<DK, DV> &c) {
    return c.ring.count - c.items.count;
}

// Stores dS to shared memory, where all consumers read it.
template <bool DK, bool DV> __device__ __forceinline__ void share_d_s(KeysConsumer<DK, DV> &c) {
    const int count = shared_tiles(c), buffer = count % 2;
    barrier_wait(&c.shared.d_s_empty[buffer], count / 2 % 2 ^ buffer * DQ_LATE ^ 1); // if dQ is late, the first step releases buffer 1
    store_d_s(c.shared.d_s[buffer][c.index], c.d_s);
    fence_async();
    __syncwarp();
    if (elect_one())
        barrier_arrive(&c.shared.d_s_full[buffer]);
}

//$ if dq_in_turn
// True if the consumer multiplies dQ of this step. A vote, so that the compiler knows that the branch is uniform.
template <bool DK, bool DV> __device__ __forceinline__ bool multiplies_dq(const KeysConsumer<DK, DV> &c) {
    return __any_sync(0xffffffffu, shared_tiles(c) % 2 == c.index);
}
//$ end

// Issues the consumer's part of dQ = dS K over the keys of all consumers.
template <bool DK, bool DV> __device__ __forceinline__ void multiply_dq(KeysConsumer<DK, DV> &c) {
    const int count = shared_tiles(c) - DQ_LATE, buffer = count & 1;
    ask_for_order(c.shared.dq_order[c.index], {c.late_sums, c.item().key0 / BLOCK_N}); //$ if dq_ordered
    barrier_wait(&c.shared.d_s_full[buffer], count >> 1 & 1);
    wgmma_fence();
    multiply_part_of_dq(c.dq, c.shared.d_s[buffer], c.shared.k[c.items.stage()], c.index);
    wgmma_commit();
}

// Takes dQ once it is complete, releases its dS tile, and sends dQ to its sums.
template <bool DK, bool DV> __device__ __forceinline__ void take_dq(KeysConsumer<DK, DV> &c) {
    wgmma_settle(c.dq);
    release(&c.shared.d_s_empty[(shared_tiles(c) - DQ_LATE) & 1]);
    barrier_wait(&c.shared.dq_order[c.index].allowed, shared_tiles(c) >> 1 & 1); // consumers take turns with steps //$ if dq_ordered
    if (DQ_LATE == 0 || c.late_sums >= 0) // not in the item's first step
        send_part_of_dq(c.dq, c.all, c.index, c.late_sums, c.item().key0 == 0); //$ if dq_ordered
        send_part_of_dq(c.dq, c.all, c.index, c.late_sums);                     //$ else
    release_by_warps(&c.shared.dq_order[c.index].added); //$ if dq_ordered
}
//$ if not dq_in_turn

// Multiplies dQ of the last step and sends it to its sums.
template <bool DK, bool DV> __device__ __forceinline__ void finish_last_dq(KeysConsumer<DK, DV> &c) {
    multiply_dq(c);
    wgmma_wait<0>();
    wgmma_settle(c.dq);
    send_part_of_dq(c.dq, c.all, c.index, c.step().sums);
}
//$ end
