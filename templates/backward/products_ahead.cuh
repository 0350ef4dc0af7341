//$ needs pingpong_schedule
//$ include "backward/turns.cuh" if pingpong_schedule

// Schedule of a consumer: S^T and dP^T of the next step are multiplied during this one, so that products of this warpgroup overlap its
// other work: dV overlaps dS, and dP^T overlaps the exponentials. Nothing is in flight at the back edge of the loop.
template <bool DK, bool DV> __device__ __forceinline__ void run_products_ahead(KeysConsumer<DK, DV> &c) {
    c.await_queries(0);
    if (!c.enter_step()) {
        c.await_d_o(0);
        c.pass_last_step();
        return;
    }
    c.multiply_scores(0);
    c.await_d_o(0);
    c.multiply_d_weights(0);
    wgmma_wait<1>();
    wgmma_settle(c.s);
    c.load_lse2(0);
    c.weigh(0);
    c.await_d_o(0); // again: keeps the assembler from waiting for dP^T before the exponentials
    wgmma_wait<0>();
#pragma unroll 1
    for (; c.enter_step(); c.ring.count++) {
        if constexpr (DV)
            c.add_dv();
        c.load_dots();
        c.weigh_gradients();
        c.add_dk();
        if constexpr (DV) {
            wgmma_wait<1>();
            wgmma_settle(c.dv[0]);
        }
        c.release_d_o();
        c.multiply_scores(1);
        wgmma_wait<1>();
        wgmma_settle(c.dk[0]);
        c.release_queries();
        c.await_d_o(1);
        c.multiply_d_weights(1);
        wgmma_wait<1>();
        wgmma_settle(c.s);
        take_turn(c.index); //$ if pingpong_schedule
        c.load_lse2(1);
        c.weigh(1);
        pass_turn(c.index); //$ if pingpong_schedule
        c.await_d_o(1);
        wgmma_wait<0>();
    }
    c.pass_last_step();
}
