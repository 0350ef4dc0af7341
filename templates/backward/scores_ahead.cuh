//$ needs mask dropout kept_stages bias_copied added_ahead dq_added dq_in_turn dq_first pingpong_schedule queries_released_early
//$ include "backward/turns.cuh" if pingpong_schedule
//$ include "backward/multiply_dq.cuh" if dq_added
//$ include "backward/find_added.cuh" if bias_copied or added_ahead

// Schedule of a consumer: S^T of the next step is issued after dK of this one, and nothing is in flight at the back edge of the loop.
// The consumers take turns with dQ, so that one multiplies it while the other computes exponentials. //$ if dq_in_turn
// dQ is multiplied one step late, so that no consumer waits for another. //$ elif dq_added
template <bool DK, bool DV, bool DQ> __device__ __forceinline__ void take_step(KeysConsumer<DK, DV> &c) {
    if constexpr (DK) {
        c.load_dots(); // before the products, since such loads are slow while products run
        c.multiply_d_weights(0);
    }
    if constexpr (DV)
        c.add_dv();
    if constexpr (DK) {
        wgmma_wait<DV>();
        c.weigh_gradients();
        share_d_s(c); //$ if dq_added
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
    if constexpr (DK) c.release_queries(); //$ if queries_released_early
    c.release_queries();                   //$ else
    c.load_lse2(1); // before dQ, for the same reason
    if constexpr (DQ)
        multiply_dq(c);
    find_added(c, 1); //$ if added_ahead and not dq_first
    c.find_seen(1); //$ if mask == custom_mask
    wgmma_wait<0>();  //$ if dq_first
    take_dq(c);       //$ if dq_first
    wgmma_wait<DQ>(); //$ else
    wgmma_settle(c.s);
    find_added(c, 1); //$ if added_ahead and dq_first
    fill_bias(c, 1);  //$ if bias_copied and not added_ahead
    take_turn(c.index); //$ if pingpong_schedule
    c.weigh(1);
    pass_turn(c.index); //$ if pingpong_schedule
    //$ if queries_released_early
    if constexpr (!DK)
        if (!c.last_ahead)
            c.release_queries(1); // dV alone needs neither Q nor LSE any more
    //$ end
    c.await_d_o(1); // also keeps the assembler from waiting for dQ earlier
    //$ if not dq_first
    if constexpr (DQ) {
        wgmma_wait<0>();
        take_dq(c);
    }
    //$ end
}

template <bool DK, bool DV> __device__ __forceinline__ void run_scores_ahead(KeysConsumer<DK, DV> &c) {
    c.await_queries(0);
    if (!c.enter_step()) {
        c.await_d_o(0);
        c.take_kept(0); //$ if dropout == 1 and kept_stages == 1
        c.pass_last_step();
        return;
    }
    c.multiply_scores(0);
    c.load_lse2(0);
    find_added(c, 0); //$ if added_ahead
    c.find_seen(0); //$ if mask == custom_mask
    wgmma_wait<0>();
    wgmma_settle(c.s);
    fill_bias(c, 0); //$ if bias_copied and not added_ahead
    c.weigh(0);
    if constexpr (!DK) c.release_queries(); //$ if queries_released_early
    c.await_d_o(0);
#pragma unroll 1
    for (; c.enter_step(); c.ring.count++)
        //$ if dq_in_turn
        if (multiplies_dq(c))
            take_step<DK, DV, true>(c);
        else
            take_step<DK, DV, false>(c);
        //$ elif dq_added
        take_step<DK, DV, true>(c); // dQ is wasted in the first step of an item: a branch would cost registers
        //$ else
        take_step<DK, DV, false>(c);
        //$ end
    finish_last_dq(c); //$ if dq_added and not dq_in_turn
    c.pass_last_step();
}
