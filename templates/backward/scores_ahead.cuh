//$ needs mask dropout kept_stages bias_copied added_ahead dq_added dq_first pingpong_schedule
//$ include "backward/turns.cuh" if pingpong_schedule

// The order of a consumer's steps: S^T of the next step is multiplied behind dK of this one, and nothing is in flight where the loop
// closes. dQ is multiplied one step late, so that no consumer waits for the other. //$ if dq_added
template <bool DK, bool DV> __device__ __forceinline__ void run(KeysConsumer<DK, DV> &c) {
    c.await_queries(0);
    if (!c.enter_step()) {
        c.await_d_o(0);
        c.take_kept(0); //$ if dropout == 1 and kept_stages == 1
        c.pass_last_step();
        return;
    }
    c.multiply_scores(0);
    c.find_added(0); //$ if added_ahead
    c.find_seen(0); //$ if mask == custom_mask
    wgmma_wait<0>();
    wgmma_settle(c.s);
    c.fill_bias(0); //$ if bias_copied and not added_ahead
    c.weigh(0);
    c.await_d_o(0);
#pragma unroll 1
    for (; c.enter_step(); c.ring.count++) {
        if constexpr (DK)
            c.multiply_d_weights(0);
        if constexpr (DV)
            c.add_dv();
        if constexpr (DK) {
            wgmma_wait<DV>();
            c.weigh_gradients();
            c.share(); //$ if dq_added
            c.add_dk();
        }
        if constexpr (DK && DV)
            wgmma_wait<1>();
        if constexpr (DK) {
            wgmma_settle(c.dv[0]);
            c.release_d_o();
        }
        c.multiply_scores(1);
        wgmma_wait<1>();
        wgmma_settle(c.dk[0]);
        if constexpr (!DK) {
            wgmma_settle(c.dv[0]);
            c.release_d_o();
        }
        c.release_queries();
        c.multiply_dq(); // in an item's first step in vain: a branch would cost registers //$ if dq_added
        c.find_added(1); //$ if added_ahead and not dq_first
        c.find_seen(1); //$ if mask == custom_mask
        wgmma_wait<0>(); //$ if dq_first or not dq_added
        c.take_dq();     //$ if dq_first
        wgmma_wait<1>(); //$ elif dq_added
        wgmma_settle(c.s);
        c.find_added(1); //$ if added_ahead and dq_first
        c.fill_bias(1);  //$ if bias_copied and not added_ahead
        take_turn(c.index); //$ if pingpong_schedule
        c.weigh(1);
        pass_turn(c.index); //$ if pingpong_schedule
        c.await_d_o(1); // also keeps the assembler from waiting for dQ before
        //$ if dq_added and not dq_first
        wgmma_wait<0>();
        c.take_dq();
        //$ end
    }
    c.finish_last_dq(); //$ if dq_added
    c.pass_last_step();
}
