//$ needs nan_reaches_scores own_q_steps mask score dropout step_n stages v_stages d_weights_ahead head_dim head_dim_v
//$ include "backward/clear_scored.cuh" if nan_reaches_scores
//$ include "backward/own_rows.cuh" if own_q_steps > 0

// A consumer warpgroup: 64 queries of the block, and everything that it keeps in registers.
struct QueriesConsumer {
    const attention_backward_params &params;
    const attention_params &all; // parameters of all sequences
    SharedQueries &shared;
    int index, first, query; // number of the consumer in the block; first query of this warp, and of this thread's rows
    Ring<STAGES> ring;       // steps
    float lse2[2], dot[2];   // of this thread's two rows, 8 queries apart
    OwnRows<OWN_Q_STEPS> q; // first columns of this consumer's Q //$ if own_q_steps > 0
    float dq[1][HEAD_DIM / 2];
    float s[STEP_N / 2]; // S, then slopes
    float d_weight[STEP_N / 2];
    unsigned d_s[STEP_N / 16][4];

    __device__ __forceinline__ QueriesConsumer(const attention_backward_params &params, SharedQueries &shared, int index, int head,
                                               int query0)
        : params(params), all(params.forward), shared(shared), index(index),
          first(query0 + 64 * index + static_cast<int>(threadIdx.x) % 128 / 32 * 16),
          query(first + static_cast<int>(threadIdx.x) % 32 / 4), ring{0}, dq{} {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int place = row_place(min(query + 8 * r, own_sequence(all, shared).len_q - 1));
            lse2[r] = row_lse2(own_sequence(all, shared), head)[place];
            dot[r] = row_dots(own_sequence(all, shared), head)[place];
        }
    }

    // Return the step, and the position in the ring of V, at distance `ahead` from the current step.
    __device__ __forceinline__ const Step &step(int ahead = 0) const { return shared.step[(ring + ahead).stage()]; }
    __device__ __forceinline__ Ring<V_STAGES> values(int ahead = 0) const { return {ring.count + ahead}; }
    __device__ __forceinline__ void await_values(int ahead) {
        barrier_wait(&shared.v_full[values(ahead).stage()], values(ahead).parity());
    }

    // Issues S (64 queries, STEP_N) = Q K^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        const int stage = (ring + ahead).stage();
        barrier_wait(&shared.k_full[stage], (ring + ahead).parity());
        wgmma_fence();
        multiply_own_rows<HEAD_DIM, STEP_N>(s, q, matrix_descriptor(shared.q[index], 0), matrix_descriptor(shared.k[stage], 0)); //$ if own_q_steps > 0
        multiply_rows<HEAD_DIM, STEP_N>(s, matrix_descriptor(shared.q[index], 0), matrix_descriptor(shared.k[stage], 0));        //$ else
        wgmma_commit();
    }

    // Issues dP (64 queries, STEP_N) = dO V^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_d_weights(int ahead) {
        await_values(ahead);
        wgmma_fence();
        multiply_rows<HEAD_DIM_V, STEP_N>(d_weight, matrix_descriptor(shared.d_o[index], 0),
                                          matrix_descriptor(shared.v[values(ahead).stage()], 0));
        wgmma_commit();
    }

    // Issues dQ (64 queries, d) += dS K.
    __device__ __forceinline__ void add_dq() {
        wgmma_fence();
        add_weighted<HEAD_DIM, STEP_N>(dq[0], d_s, matrix_descriptor(shared.k[ring.stage()], STEP_N * 128));
        wgmma_commit();
    }

    // Computes the slopes of the step at distance `ahead` from S.
    __device__ __forceinline__ void weigh(int ahead) {
        const Step &of = step(ahead);
        const attention_params &p = own_sequence(all, shared);
        const Where &at = of.where; //$ if mask == custom_mask or score == custom_score
        const Where at = {};        //$ else
        if (of.whole >> index & 1)
            weigh_queries<false>(s, p, at, lse2, query, of.first);
        else if (of.first >= 0) {
            clear_scored<STEP_N>(shared.k[(ring + ahead).stage()], 0, scores_of_first_row(s)); //$ if nan_reaches_scores
            weigh_queries<true>(s, p, at, lse2, query, of.first);
        }
    }

    // Waits for S of the step at distance `ahead`, computes its slopes and waits for dP. //$ if d_weights_ahead
    // Waits for S of the step at distance `ahead`. //$ else
    __device__ __forceinline__ void finish_scores(int ahead) {
        wgmma_wait<1>(); //$ if d_weights_ahead
        wgmma_wait<0>(); //$ else
        wgmma_settle(s);
        //$ if d_weights_ahead
        weigh(ahead);
        await_values(ahead); // waits again, which keeps the assembler from waiting for dP before the exponentials
        wgmma_wait<0>();
        //$ end
    }

    // Computes dS from dP and the slopes.
    __device__ __forceinline__ void weigh_gradients() {
        wgmma_settle(d_weight);
        //$ if dropout == 1
        unsigned kept[STEP_N / 64];
#pragma unroll
        for (int i = 0; i < STEP_N / 64; i++)
            kept[i] = reinterpret_cast<const unsigned *>(shared.kept[ring.stage()][index][threadIdx.x % 128])[i];
        drop_gradients(d_weight, kept, all.dropout_factor);
        //$ end
        if (step().whole >> index & 1)
            weigh_query_gradients<false>(d_s, d_weight, s, dot);
        else
            weigh_query_gradients<true>(d_s, d_weight, s, dot);
    }

    // Issues S of the next step after dQ of this one. Nothing is in flight at the back edge of the loop. //$ if not d_weights_ahead
    // Issues S and dP of the next step after dQ of this one; dP overlaps the exponentials. Nothing is in flight at the back edge. //$ else
    __device__ __forceinline__ void run() {
        wgmma_settle(dq[0]);
        barrier_wait(&shared.k_full[0], 0);
        if (step().first < 0)
            return;
        barrier_wait(&shared.queries_full, 0);
        load_own_rows(q, shared.q[index]); //$ if own_q_steps > 0
        multiply_scores(0);
        multiply_d_weights(0); //$ if d_weights_ahead
        finish_scores(0);
#pragma unroll 1
        for (; step().first >= 0; ring.count++) {
            //$ if not d_weights_ahead
            multiply_d_weights(0);
            weigh(0);
            wgmma_wait<0>();
            //$ end
            weigh_gradients();
            release(&shared.v_empty[values().stage()]);
            add_dq();
            multiply_scores(1);
            wgmma_wait<1>();
            wgmma_settle(dq[0]);
            release_by_warps(&shared.k_empty[ring.stage()]);
            multiply_d_weights(1); //$ if d_weights_ahead
            finish_scores(1);
        }
    }

    // Stores dQ. Returns whether elements of this warp's rows are not finite.
    __device__ __forceinline__ bool store(int head) const {
        const attention_backward_params &own = tensors_of_queries(params, head);
        const attention_params &p = own.forward;
        const bool again = wants_repeat(dq[0]) && first < p.len_q;
        Nonfinite<HEAD_DIM / 2> nonfinite;
        if (again)
            nonfinite = nonfinite_sums(dq[0], p.len_q - first);
        store_rows<HEAD_DIM>(dq, p.scale, own.dq, own.dq_batch_stride, own.dq_head_stride, own.dq_row_stride,
                             head / p.heads, head % p.heads, first, p.len_q - first);
        if (again)
            repeat_dq(own, head, first, nonfinite);
        return again;
    }
};
