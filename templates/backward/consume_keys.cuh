//$ needs mask score dropout step_n stages v_stages head_dim head_dim_v

// A consumer warpgroup: 64 queries of the block, and everything that it holds in registers.
struct QueriesConsumer {
    const attention_backward_params &params;
    const attention_params &all; // sequences
    SharedQueries &shared;
    int index, first, query; // which consumer of the block; the first query of this warp, and of this thread's rows
    Ring<STAGES> ring;       // steps
    float lse2[2], dot[2];   // of this thread's two rows, 8 queries apart
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

    __device__ __forceinline__ const Step &step() const { return shared.step[ring.stage()]; }
    __device__ __forceinline__ Ring<V_STAGES> values() const { return {ring.count}; }

    // S (64 queries, STEP_N) = Q K^T of a step that is `ahead`; issued.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        const int stage = (ring + ahead).stage();
        barrier_wait(&shared.k_full[stage], (ring + ahead).parity());
        wgmma_fence();
        multiply_rows<HEAD_DIM, STEP_N>(s, matrix_descriptor(shared.q[index], 0), matrix_descriptor(shared.k[stage], 0));
        wgmma_commit();
    }

    // dS of S and dP, which is in flight.
    template <bool MASKED> __device__ __forceinline__ void weigh() {
        const attention_params &p = own_sequence(all, shared);
        weigh_queries<MASKED>(s, p, step().where, lse2, query, step().first); //$ if mask == custom_mask or score == custom_score
        weigh_queries<MASKED>(s, p, {}, lse2, query, step().first);           //$ else
        wgmma_wait<0>();
        wgmma_settle(d_weight);
        //$ if dropout == 1
        unsigned kept[STEP_N / 64];
#pragma unroll
        for (int i = 0; i < STEP_N / 64; i++)
            kept[i] = reinterpret_cast<const unsigned *>(shared.kept[ring.stage()][index][threadIdx.x % 128])[i];
        drop_gradients(d_weight, kept, all.dropout_factor);
        //$ end
        weigh_query_gradients<MASKED>(d_s, d_weight, s, dot);
    }

    __device__ __forceinline__ void run() {
        wgmma_settle(dq[0]);
        barrier_wait(&shared.k_full[0], 0);
        if (step().first < 0)
            return;
        barrier_wait(&shared.queries_full, 0);
        multiply_scores(0);
        wgmma_wait<0>();
        wgmma_settle(s);
#pragma unroll 1
        for (; step().first >= 0; ring.count++) {
            const int stage = ring.stage(), stage_v = values().stage();
            // dP (64 queries, STEP_N) = dO V^T
            barrier_wait(&shared.v_full[stage_v], values().parity());
            wgmma_fence();
            multiply_rows<HEAD_DIM_V, STEP_N>(d_weight, matrix_descriptor(shared.d_o[index], 0),
                                              matrix_descriptor(shared.v[stage_v], 0));
            wgmma_commit();
            if (step().whole >> index & 1)
                weigh<false>();
            else
                weigh<true>();
            release(&shared.v_empty[stage_v]);
            // dQ (64 queries, d) += dS K
            wgmma_fence();
            add_weighted<HEAD_DIM, STEP_N>(dq[0], d_s, matrix_descriptor(shared.k[stage], STEP_N * 128));
            wgmma_commit();
            multiply_scores(1);
            wgmma_wait<1>();
            wgmma_settle(dq[0]);
            release_by_warps(&shared.k_empty[stage]);
            wgmma_wait<0>();
            wgmma_settle(s);
        }
    }

    __device__ __forceinline__ void store(int head) const {
        const attention_backward_params &own = tensors_of_queries(params, head);
        const attention_params &p = own.forward;
        const bool again = wants_repeat(dq[0]) && first < p.len_q;
        Strange<HEAD_DIM / 2> strange;
        if (again)
            strange = strange_sums(dq[0], p.len_q - first);
        store_rows<HEAD_DIM>(dq, p.scale, own.dq, own.dq_batch_stride, own.dq_head_stride, own.dq_row_stride,
                             head / p.heads, head % p.heads, first, p.len_q - first);
        if (again)
            repeat_dq(own, head, first, strange);
    }
};
