//$ needs mask score dropout bfloat16 step_m stages d_o_stages consumers head_dim head_dim_v dq_added dq_first dq_columns pingpong_schedule

// Only one of the two consumers at a time computes exponentials.
__device__ __forceinline__ void take_turn(int consumer) { named_barrier_sync(1 + consumer, 256); }
__device__ __forceinline__ void pass_turn(int consumer) { named_barrier_arrive(2 - consumer, 256); }

// A consumer warpgroup: 64 keys of the block, and everything that it holds in registers.
template <bool DK, bool DV> struct KeysConsumer {
    const attention_backward_params &params;
    const attention_params &all; // sequences
    SharedKeys &shared;
    int index, key0, key; // which consumer of the block; the block's first key, the first key of this thread's rows
    Ring<STAGES> ring;    // steps
    float dk[1][DK ? HEAD_DIM / 2 : 1], dv[1][DV ? HEAD_DIM_V / 2 : 1];
    float s[STEP_M / 2]; // S^T, then slopes
    float d_weight[STEP_M / 2];
    unsigned weights[STEP_M / 16][4], d_s[STEP_M / 16][4];
    float dq[DQ_COLUMNS / 2]; // (64 queries, DQ_COLUMNS) //$ if dq_added

    __device__ __forceinline__ KeysConsumer(const attention_backward_params &params, SharedKeys &shared, int index, int key0)
        : params(params), all(params.forward), shared(shared), index(index), key0(key0),
          key(key0 + 64 * index + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4), ring{0},
          dk{}, dv{} {}

    // Which step, and which tile of dO: this one, or one further on.
    __device__ __forceinline__ const Step &step(int ahead = 0) const { return shared.step[(ring + ahead).stage()]; }
    __device__ __forceinline__ Ring<D_O_STAGES> d_o(int ahead = 0) const { return {ring.count + ahead}; }

    //$ if dropout == 1
    // Which of this thread's pairs of a step are kept.
    __device__ __forceinline__ unsigned kept(int ahead = 0) const {
        return *reinterpret_cast<const unsigned *>(shared.kept[(ring + ahead).stage()][index][threadIdx.x % 128]);
    }
    //$ end

    // S^T (64 keys, STEP_M) = K Q^T of a step that is `ahead`; issued.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        const int stage = (ring + ahead).stage();
        barrier_wait(&shared.q_full[stage], (ring + ahead).parity());
        wgmma_fence();
        multiply_rows<HEAD_DIM, STEP_M>(s, matrix_descriptor(shared.k[index], 0), matrix_descriptor(shared.q[stage], 0));
        wgmma_commit();
    }

    // P^T and slopes, from S^T.
    __device__ __forceinline__ void weigh(int ahead) {
        const Step &of = step(ahead);
        const attention_params &p = own_sequence(all, shared);
        const SharedAddress lse2 = address_in_shared(shared.lse2[(ring + ahead).stage()]);
        const Where &at = of.where; //$ if mask == custom_mask or score == custom_score
        const Where at = {};        //$ else
        if (of.whole)
            weigh_as<false>(p, at, lse2, of.first, ahead);
        else if (of.first >= 0)
            weigh_as<true>(p, at, lse2, of.first, ahead);
    }
    template <bool MASKED>
    __device__ __forceinline__ void weigh_as(const attention_params &p, const Where &at, SharedAddress lse2, int query0, int ahead) {
        weigh_keys<MASKED>(s, weights, p, kept(ahead), at, lse2, query0, key); //$ if score == custom_score and dropout == 1
        weigh_keys<MASKED>(s, weights, p, at, lse2, query0, key);              //$ elif score == custom_score
        weigh_keys<MASKED>(s, p, at, lse2, query0, key);                       //$ else
    }

    // dP^T (64 keys, STEP_M) = V dO^T; issued.
    __device__ __forceinline__ void multiply_d_weights() {
        wgmma_fence();
        multiply_rows<HEAD_DIM_V, STEP_M>(d_weight, matrix_descriptor(shared.v[index], 0),
                                          matrix_descriptor(shared.d_o[d_o().stage()], 0));
        wgmma_commit();
    }

    // dV (64 keys, dv) += P^T dO; issued.
    __device__ __forceinline__ void add_dv() {
        pack_kept(weights, s, kept()); //$ if score != custom_score and dropout == 1
        pack_values(weights, s);       //$ elif score != custom_score
        wgmma_fence();
        add_weighted<HEAD_DIM_V, STEP_M>(dv[0], weights, matrix_descriptor(shared.d_o[d_o().stage()], STEP_M * 128));
        wgmma_commit();
    }

    // dS^T, from dP^T and slopes.
    __device__ __forceinline__ void weigh_gradients() {
        wgmma_settle(d_weight);
        const SharedAddress dot = address_in_shared(shared.dot[ring.stage()]);
        drop_gradients(d_weight, kept(), all.dropout_factor); //$ if dropout == 1
        if (step().whole)
            weigh_key_gradients<false>(d_s, d_weight, s, dot);
        else
            weigh_key_gradients<true>(d_s, d_weight, s, dot);
    }

    // dK (64 keys, d) += dS^T Q; issued.
    __device__ __forceinline__ void add_dk() {
        wgmma_fence();
        add_weighted<HEAD_DIM, STEP_M>(dk[0], d_s, matrix_descriptor(shared.q[ring.stage()], STEP_M * 128));
        wgmma_commit();
    }
    //$ if dq_added

    // dS^T to shared memory, (64 keys, 64 queries), where all consumers read it.
    __device__ __forceinline__ void share() {
        const int buffer = ring.count % 2, lane = static_cast<int>(threadIdx.x) % 32;
        const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane % 16;
        barrier_wait(&shared.d_s_empty[buffer], ring.count / 2 % 2 ^ buffer ^ 1); // the first step releases buffer 1
#pragma unroll
        for (int i = 0; i < STEP_M / 16; i++)
            store_matrices(&shared.d_s[buffer][index][0][row][((2 * i + lane / 16) ^ lane % 8) * 8], d_s[i][0], d_s[i][1], d_s[i][2],
                           d_s[i][3]);
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.d_s_full[buffer]);
    }

    // dQ (64 queries, DQ_COLUMNS) = dS K over the keys of all consumers; issued.
    __device__ __forceinline__ void multiply_dq(int count) {
        const int buffer = count & 1, column = index * DQ_COLUMNS;
        barrier_wait(&shared.d_s_full[buffer], count >> 1 & 1);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < CONSUMERS; i++) {
            const unsigned long long a = matrix_descriptor(shared.d_s[buffer][i], 0);
            const unsigned long long b = matrix_descriptor(&shared.k[i][column / 64][0][column % 64], 0);
#pragma unroll
            for (int step = 0; step < 4; step++)
                if (i == 0 && step == 0)
                    wgmma_ss<DQ_COLUMNS, false, true, false, BFLOAT16>(dq, a, b);
                else
                    wgmma_ss<DQ_COLUMNS, true, true, false, BFLOAT16>(dq, a + step * ROWS_OF_STEP, b + step * ROWS_OF_STEP);
        }
        wgmma_commit();
    }

    // dQ of the step before, when it is there, to its sums.
    __device__ __forceinline__ void finish_dq() {
        wgmma_wait<0>();
        wgmma_settle(dq);
        release(&shared.d_s_empty[(ring.count - 1) & 1]);
        if (ring.count > 0)
            add_dq(step(1).late_sums);
    }

    // The same of the last step.
    __device__ __forceinline__ void finish_last_dq() {
        multiply_dq(ring.count - 1);
        wgmma_wait<0>();
        wgmma_settle(dq);
        add_dq(step().sums);
    }

    // dQ to the sums in memory.
    __device__ __forceinline__ void add_dq(int sums) {
        float *const to = dq_sums(all, sums) + static_cast<int>(threadIdx.x) % 128 * 4;
        const int column = index * DQ_COLUMNS;
#pragma unroll
        for (int i = 0; i < DQ_COLUMNS / 8; i++)
            if (HEAD_DIM == 2 * DQ_COLUMNS || column + 8 * i < HEAD_DIM)
                add_to_memory(to + (column / 8 + i) * 512, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    }
    //$ end

    __device__ __forceinline__ void run() {
        wgmma_settle(dk[0]);
        wgmma_settle(dv[0]);
        barrier_wait(&shared.q_full[0], 0);
        if (step().first < 0)
            return;
        barrier_wait(&shared.keys_full, 0);
        if (index == 1) pass_turn(1); // consumer 0 takes the first one //$ if pingpong_schedule
        multiply_scores(0);
        wgmma_wait<0>();
        wgmma_settle(s);
        weigh(0);
        barrier_wait(&shared.d_o_full[0], 0);
#pragma unroll 1
        for (; step().first >= 0; ring.count++) {
            if constexpr (DK)
                multiply_d_weights();
            if constexpr (DV)
                add_dv();
            if constexpr (DK) {
                wgmma_wait<DV>();
                weigh_gradients();
                share(); //$ if dq_added
                add_dk();
            }
            if constexpr (DK && DV)
                wgmma_wait<1>();
            if constexpr (DK) {
                wgmma_settle(dv[0]);
                release(&shared.d_o_empty[d_o().stage()]);
            }
            multiply_scores(1);
            wgmma_wait<1>();
            wgmma_settle(dk[0]);
            if constexpr (!DK) {
                wgmma_settle(dv[0]);
                release(&shared.d_o_empty[d_o().stage()]);
            }
            release(&shared.q_empty[ring.stage()]);
            multiply_dq(ring.count - 1); // in the first step in vain: a branch would cost registers //$ if dq_added
            finish_dq();     //$ if dq_first
            wgmma_wait<1>(); //$ elif dq_added
            wgmma_wait<0>(); //$ else
            wgmma_settle(s);
            take_turn(index); //$ if pingpong_schedule
            weigh(1);
            pass_turn(index); //$ if pingpong_schedule
            barrier_wait(&shared.d_o_full[d_o(1).stage()], d_o(1).parity()); // also keeps the assembler from waiting for dQ before
            finish_dq(); //$ if dq_added and not dq_first
        }
        if (index == 0) take_turn(0); // the one that is left //$ if pingpong_schedule
        finish_last_dq(); //$ if dq_added
    }

    __device__ __forceinline__ void store(int kv_index) const {
        const attention_backward_params &own = tensors_of_keys(params, kv_index);
        const attention_params &p = own.forward;
        const int row0 = key0 + 64 * index + static_cast<int>(threadIdx.x) % 128 / 32 * 16; // of this warp
        const int kv_head = kv_index % p.kv_heads, batch = kv_index / p.kv_heads;
        const float factor_of_dv = p.dropout_factor; //$ if dropout == 1
        const float factor_of_dv = 1;                //$ else
        const bool again_dk = DK && wants_repeat(dk[0]) && row0 < p.len_kv;
        const bool again_dv = DV && wants_repeat(dv[0]) && row0 < p.len_kv;
        if constexpr (DK)
            store_rows<HEAD_DIM>(dk, p.scale, own.dk, own.dk_batch_stride, own.dk_head_stride, own.dk_row_stride, batch,
                                 kv_head, row0, p.len_kv - row0);
        if constexpr (DV)
            store_rows<HEAD_DIM_V>(dv, factor_of_dv, own.dv, own.dv_batch_stride, own.dv_head_stride, own.dv_row_stride, batch,
                                   kv_head, row0, p.len_kv - row0);
        // behind the stores: the sums are no longer in registers
        if constexpr (DK)
            if (again_dk)
                repeat_dk(own, kv_index, row0);
        if constexpr (DV)
            if (again_dv)
                repeat_dv(own, kv_index, row0);
    }
};
