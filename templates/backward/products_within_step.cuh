//$ needs consumers step_m bfloat16
//$ include "target/sm_90_store_transposed.cuh"

// Schedule of a consumer: all products of a step are issued and awaited within the step, so that registers hold S and dP of one step at a
// time. dP is multiplied during the exponentials, dV while the consumers wait for each other's dS, and dK while dQ goes to shared memory.

// Returns the buffer of dS of the step. Buffers alternate, so before one is stored to again, all consumers have once more waited for each
// other, after their dQ of it was complete. (Stages of Q would not do: an item without queries takes one.)
template <bool DK, bool DV> __device__ __forceinline__ int d_s_buffer(const KeysConsumer<DK, DV> &c) { return c.parts_of_dq % 2; }

// Returns where this lane stores dS of queries 16 j to 16 j + 15: in row lane / 16 * 8 + lane % 8, eight of the keys of its warp.
template <bool DK, bool DV> __device__ __forceinline__ unsigned short *d_s_place(const KeysConsumer<DK, DV> &c, int j) {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return &c.shared.d_s[d_s_buffer(c)][c.index][j / 4][j % 4 * 16 + lane / 16 * 8 + lane % 8]
                        [(2 * warp + lane % 16 / 8 ^ lane % 8) * 8];
}

// dS^T = P^T (dP^T - D) of queries 16 j to 16 j + 15, as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_sixteen(unsigned (&d_s)[4], const float (&d_weight)[STEP_M / 2],
                                              const float (&weights)[STEP_M / 2], const Statistics &dots, int j) {
    float dot_of[4];
    dots.get(dot_of, j);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int first = 8 * j + 2 * i;
        float value[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            value[e] = weights[first + e] * (d_weight[first + e] - dot_of[i / 2 * 2 + e]);
            value[e] = MASKED && weights[first + e] == 0 ? 0 : value[e]; // whatever dP of an unseen pair is
        }
        d_s[i] = pack<BFLOAT16>(value[0], value[1]);
    }
}

// Computes P^T from S^T, and dS^T, whose transpose it stores to shared memory. Nothing but the wait for dP^T separates the two, so the
// compiler puts arithmetic of dS between exponentials, which leave three of four issue slots free.
template <bool MASKED, bool DK, bool DV> __device__ __forceinline__ void weigh_step(KeysConsumer<DK, DV> &c) {
    const int key = c.first_key() + static_cast<int>(threadIdx.x) % 32 / 4; // of this thread's first row
    c.template weigh_as<MASKED>(own_sequence(c.all, c.item()), {}, c.step().first, key, 0);
    c.load_dots();
    wgmma_wait<0>();
    wgmma_settle(c.d_weight);
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        weigh_sixteen<MASKED>(c.d_s[j], c.d_weight, c.s, c.dots, j);
        store_matrices_transposed(d_s_place(c, j), c.d_s[j][0], c.d_s[j][1], c.d_s[j][2], c.d_s[j][3]);
    }
}

// Waits until all consumers have stored their dS.
__device__ __forceinline__ void await_d_s() {
    fence_async();
    named_barrier_sync(1, 128 * CONSUMERS);
}

template <bool DK, bool DV> __device__ __forceinline__ void run_products_within_step(KeysConsumer<DK, DV> &c) {
    c.await_queries(0);
    if (!c.enter_step()) {
        c.await_d_o(0);
        c.pass_last_step();
        return;
    }
    bool more;
#pragma unroll 1
    do {
        c.multiply_scores(0);
        c.await_d_o(0);
        c.multiply_d_weights(0);
        c.load_lse2(0);
        wgmma_wait<1>();
        wgmma_settle(c.s);
        if (c.whole)
            weigh_step<false>(c);
        else
            weigh_step<true>(c);
        c.add_dv();
        await_d_s();
        wgmma_fence();
        multiply_part_of_dq(c.dq, c.shared.d_s[d_s_buffer(c)], c.shared.k[c.items.stage()], c.index);
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_settle(c.dv[0]);
        c.release_d_o();
        c.add_dk();
        wgmma_wait<1>();
        wgmma_settle(c.dq);
        send_part_of_dq(c.dq, c.shared, c.index, c.parts_of_dq++, c.sums);
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
