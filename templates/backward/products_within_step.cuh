//$ needs clears_in_step consumers step_m rows_in_order values_apart
//$ include "backward/store_d_s.cuh"

// Schedule of a consumer: all products of a step are issued and awaited within the step, so that registers hold S and dP of one step at a
// time. dP is multiplied during the exponentials, dV while the consumers wait for each other's dS, and dK while dQ goes to shared memory.

// Returns the buffer of dS of the step. Buffers alternate, so before one is stored to again, all consumers have once more waited for each
// other, after their dQ of it was complete. (Stages of Q would not do: an item without queries takes one.)
template <bool DK, bool DV> __device__ __forceinline__ int d_s_buffer(const KeysConsumer<DK, DV> &c) { return c.parts_of_dq % 2; }

//$ if rows_in_order
// Computes P^T from S^T, and dS^T, whose transpose it stores to shared memory. Half of P^T is computed while dP^T is multiplied, the other
// half with dS^T: there the compiler puts arithmetic of dS between exponentials, of which a warp issues one in eight clocks. LSE is loaded again for
// the other half, behind a barrier: otherwise the compiler would compute most of it before the wait, or wait before all of it.
//$ else
// Computes P^T from S^T, and dS^T, whose transpose it stores to shared memory. Nothing but the wait for dP^T separates the two, so the
// compiler puts arithmetic of dS between exponentials: a warp issues two instructions for one, which takes eight clocks.
//$ end
template <bool MASKED, bool DK, bool DV> __device__ __forceinline__ void weigh_step(KeysConsumer<DK, DV> &c) {
    const int key = c.own_key();
    const attention_params &p = own_sequence(c.all, c.item());
    //$ if rows_in_order
    c.template weigh_as<MASKED>(p, {}, c.step().first, key, 0, 0, STEP_M / 32);
    c.await_d_o(0); // does not wait, but keeps the next loads behind it
    c.load_lse2(0);
    //$ else
    c.template weigh_as<MASKED>(p, {}, c.step().first, key, 0);
    //$ end
    c.load_dots();
    if (MASKED) clear_scored<STEP_M>(d_o_tiles<DK>(c.shared)[c.d_o().stage()], 0, c.dots.sum()); //$ if clears_in_step
    wgmma_wait<0>();
    wgmma_settle(c.d_weight);
    c.template weigh_as<MASKED>(p, {}, c.step().first, key, 0, STEP_M / 32, STEP_M / 16); //$ if rows_in_order
    if (c.last) release(&c.shared.values_empty); //$ if values_apart
    unsigned short *const place = d_s_place(c.shared.d_s[d_s_buffer(c)][c.index]);
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        weigh_sixteen_gradients<MASKED>(c.d_s[j], c.d_weight, c.s, c.dots, j);
        store_queries_of_d_s(place, j, c.d_s[j]);
    }
}

// Waits until all consumers have stored their dS. Barrier 1 is free: there are no turns.
__device__ __forceinline__ void await_d_s() {
    fence_async();
    named_barrier_sync(1, 128 * CONSUMERS);
}

template <bool DK, bool DV> __device__ __forceinline__ void run_products_within_step(KeysConsumer<DK, DV> &c) {
    c.await_queries(0);
    if (!c.enter_step()) {
        c.await_d_o(0);
        //$ if values_apart
        barrier_wait(&c.shared.values_full, c.values().parity());
        c.await_warps();
        release(&c.shared.values_empty);
        //$ end
        c.pass_last_step();
        return;
    }
    bool more;
#pragma unroll 1
    do {
        c.load_lse2(0); // before the products, since such loads are slow while products run
        c.multiply_scores(0);
        c.await_d_o(0);
        barrier_wait(&c.shared.values_full, c.values().parity()); //$ if values_apart
        c.multiply_d_weights(0);
        wgmma_wait<1>();
        wgmma_settle(c.s);
        if (c.whole)
            weigh_step<false>(c);
        else
            weigh_step<true>(c);
        c.add_dv();
        await_d_s();
        // no fence for wgmma: add_dv() has one, and nothing has read or written dQ since
        multiply_part_of_dq(c.dq, c.shared.d_s[d_s_buffer(c)], c.shared.k[c.items.stage()], c.index);
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_settle(c.dv[0]);
        c.release_d_o();
        c.add_dk();
        wgmma_wait<1>();
        wgmma_settle(c.dq);
        send_part_of_dq(c.dq, c.shared, c.index, c.parts_of_dq++, c.part_of_dq());
        wgmma_wait<0>();
        wgmma_settle(c.dk[0]);
        c.release_queries();
        more = !__any_sync(0xffffffffu, c.last); // a vote tells the compiler that step counts are uniform
        c.ring.count++;
        if (more) {
            c.await_queries(0);
            c.enter_step();
        }
    } while (more);
}
