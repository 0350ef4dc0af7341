//$ needs mask_query_reads clears_in_step clears_scored apart value_stages rows_in_order tma_statistics products_within_step dq_staged dq_ordered keys_in_registers own_k_steps own_v_steps own_k_steps_of_dv mask score bias_copied added_ahead slopes_differ dropout kept_stages block_n step_m stages key_stages head_dim head_dim_v dq_added dq_columns block_m items_in_parts
//$ include "backward/seen_by_reads.cuh" if mask == custom_mask and mask_query_reads > 0 else "backward/seen_pairs.cuh" if mask == custom_mask
//$ include "backward/clear_scored.cuh" if clears_scored
//$ include "backward/own_rows.cuh" if keys_in_registers
//$ include "backward/join_parts.cuh" if items_in_parts
//$ include "backward/dq_rows.cuh" if dq_added and block_m == 128 else "backward/dq_columns.cuh" if dq_added

// A consumer warpgroup: 64 keys of an item, and everything that it keeps in registers.
template <bool DK, bool DV> struct KeysConsumer {
    const attention_backward_params &params;
    const attention_params &all; // parameters of all sequences
    SharedKeys &shared;
    int index; // number of the consumer in the block
    Ring<KEY_STAGES> items;
    Ring<STAGES> ring;            // steps of all items
    bool whole;                   // true if every query of the step sees every key of this consumer
    bool whole_ahead, last_ahead; // the same for the awaited step; true if that step has no queries, so that the item ends
    bool last;           // true if the item has no further step          //$ if products_within_step
    int sums;            // dQ tile of the step                           //$ if products_within_step
    int parts_of_dq = 0; // number of parts of dQ that were sent so far   //$ if products_within_step
    unsigned seen; // seen pairs of the awaited step, one bit per element of S^T; set only if some are not seen //$ if mask == custom_mask
    unsigned kept, kept_ahead; // pairs that dropout keeps, in this step and in the awaited one //$ if dropout == 1 and kept_stages == 1
    int late_sums; // dQ tile of the dQ that this step multiplies, negative if none; known once the next step is awaited //$ if dq_added and not products_within_step
    OwnRows<DK ? OWN_K_STEPS : OWN_K_STEPS_OF_DV> k; // first columns of this consumer's K //$ if keys_in_registers
    OwnRows<DK ? OWN_V_STEPS : 0> v;                 // and of its V                       //$ if keys_in_registers
    Statistics lse2, dots; // LSE of the awaited step, D of this step
    float dk[1][DK ? HEAD_DIM / 2 : 1], dv[1][DV ? HEAD_DIM_V / 2 : 1];
    float s[STEP_M / 2]; // S^T, then slopes
    float added[STEP_M / 2]; // what the score adds to S^T of the awaited step //$ if added_ahead
    float d_weight[STEP_M / 2]; // dP^T
    unsigned weights[STEP_M / 16][4], d_s[STEP_M / 16][4]; // P^T and dS^T in 16 bits, as operands
    float dq[DQ_COLUMNS / 2]; // of this consumer's part, (64 queries, DQ_COLUMNS) //$ if dq_added

    __device__ __forceinline__ KeysConsumer(const attention_backward_params &params, SharedKeys &shared, int index)
        : params(params), all(params.forward), shared(shared), index(index), items{0}, ring{0} {}

    // Takes the next item; false if there is none.
    __device__ __forceinline__ bool take() {
        barrier_wait(&shared.keys_full[items.stage()], items.parity());
        //$ if keys_in_registers
        load_own_rows(k, shared.k[items.stage()][index]);
        load_own_rows(v, shared.v[items.stage()][index]);
        fence_async(); // before TMA writes there again
        //$ end
#pragma unroll
        for (float &value : dk[0])
            value = 0;
#pragma unroll
        for (float &value : dv[0])
            value = 0;
        wgmma_settle(dk[0]);
        wgmma_settle(dv[0]);
        return __any_sync(0xffffffffu, item().key0 >= 0); // a vote tells the compiler that item counts are uniform
    }

    __device__ __forceinline__ const Item &item() const { return shared.item[items.stage()]; }
    __device__ __forceinline__ Ring<VALUE_STAGES> values() const { return {items.count}; }
    // The first key of this warp's rows.
    __device__ __forceinline__ int first_key() const { return item().key0 + 64 * index + warp_index() % 4 * 16; }
    // The key of the first row that this thread holds, without the shuffle of first_key(), for which each step would wait.
    __device__ __forceinline__ int own_key() const {
        const int thread = static_cast<int>(threadIdx.x) % 128;
        return item().key0 + 64 * index + thread / 32 * 16 + thread % 32 / 4;
    }

    // One thread releases a stage for its warpgroup. Products order the release after the reads of the other warps; where there are none
    // between the two, the warps wait for each other.
    __device__ __forceinline__ void await_warps() { named_barrier_sync(3 + index, 128); }

    // Releases the step that marks the end of the item.
    __device__ __forceinline__ void pass_last_step() {
        fence_async(); // the last step has loaded statistics of this one, which TMA may now overwrite //$ if tma_statistics and not products_within_step
        await_warps();
        release_queries();
        release_d_o();
        ring.count++;
    }
    // Releases K and V of the item.
    __device__ __forceinline__ void release_item() {
        await_warps();
        release(&shared.keys_empty[items.stage()]);
        items.count++;
    }

    // Return the step, and the position in the ring of dO, at distance `ahead` from the current step.
    __device__ __forceinline__ const Step &step(int ahead = 0) const { return shared.step[(ring + ahead).stage()]; }
    __device__ __forceinline__ Ring<D_O_TILES<DK>> d_o(int ahead = 0) const { return {ring.count + ahead}; }

    //$ if dropout == 1
    // Returns which of this thread's pairs dropout keeps in the step at distance `ahead`.
    __device__ __forceinline__ unsigned kept_in_shared(int ahead) const {
        const Ring<KEPT_STAGES> bits = {ring.count + ahead};
        return *reinterpret_cast<const unsigned *>(shared.kept[bits.stage()][index][threadIdx.x % 128]);
    }
    //$ end
    //$ if dropout == 1 and kept_stages == 1
    // Reads these bits of an awaited step once, so that the bits of the next step can be drawn.
    __device__ __forceinline__ void take_kept(int ahead) {
        kept_ahead = kept_in_shared(ahead);
        release_by_warps(&shared.kept_empty);
    }
    //$ end

    // Waits for Q of a step. Also reads what later code needs from the step: a load from shared memory is slow while products run.
    __device__ __forceinline__ void await_queries(int ahead) {
        barrier_wait(&shared.q_full[(ring + ahead).stage()], (ring + ahead).parity());
        whole_ahead = step(ahead).whole >> index & 1;
        last_ahead = step(ahead).first < 0;
        last = step(ahead).last; //$ if products_within_step
        sums = step(ahead).sums; //$ if products_within_step
        late_sums = step(ahead).late_sums; //$ elif dq_added
    }
    // Makes the awaited step the current one; false if it marks the end of the item. The branch is on a vote, which tells the compiler
    // that step counts are uniform.
    __device__ __forceinline__ bool enter_step() {
        whole = whole_ahead;
        kept = kept_ahead; //$ if dropout == 1 and kept_stages == 1
        return !__any_sync(0xffffffffu, last_ahead);
    }
    __device__ __forceinline__ void await_d_o(int ahead) { barrier_wait(&shared.d_o_full[d_o(ahead).stage()], d_o(ahead).parity()); }

    // Issues S^T (64 keys, STEP_M) = K Q^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        await_queries(ahead); //$ if not products_within_step
        wgmma_fence();
        multiply_own_rows<HEAD_DIM, STEP_M>(s, k,                                               //$ if keys_in_registers
        multiply_rows<HEAD_DIM, STEP_M>(s,                                                      //$ else
                                        matrix_descriptor(shared.k[items.stage()][index], 0),
                                        matrix_descriptor(shared.q[(ring + ahead).stage()], 0));
        wgmma_commit();
    }

    //$ if mask == custom_mask
    // Finds which pairs of the step at distance `ahead` are seen, while its S^T is multiplied.
    __device__ __forceinline__ void find_seen(int ahead) {
        if (whole_ahead || last_ahead)
            return;
        const Step &of = step(ahead);
        seen = seen_pairs(own_sequence(all, item()), of.where, of.first, own_key());
    }

    //$ end
    //$ if score == custom_score
    // Returns the keys of the step at distance `ahead` in the form that the score takes.
    __device__ __forceinline__ ScoreKeys score_keys(int ahead) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;                                                        //$ if bias_copied
        return {shared.bias[(ring + ahead).stage()], lane % 4 * 2, 64 * index + warp_index() % 4 * 16 + lane / 4}; //$ if bias_copied
        return {};                                                                                                  //$ else
    }
    //$ end
    __device__ __forceinline__ void load_lse2(int ahead) { lse2.load(shared.lse2[(ring + ahead).stage()]); }
    __device__ __forceinline__ void load_dots() { dots.load(shared.dot[ring.stage()]); }

    //$ if not products_within_step
    // Computes P^T and the slopes from S^T.
    __device__ __forceinline__ void weigh(int ahead) {
        take_kept(ahead); //$ if dropout == 1 and kept_stages == 1
        const Step &of = step(ahead);
        const attention_params &p = own_sequence(all, item());
        const Where &at = of.where; //$ if mask == custom_mask or score == custom_score
        const Where at = {};        //$ else
        if (whole_ahead)
            weigh_as<false>(p, at, of.first, own_key(), ahead);
        else if (!last_ahead)
            weigh_as<true>(p, at, of.first, own_key(), ahead);
    }
    //$ end
    template <bool MASKED>
    __device__ __forceinline__ void weigh_as(const attention_params &p, const Where &at, int query0, int key, int ahead, //$ if rows_in_order
                                             int begin, int end) { // of queries 16 begin to 16 end - 1 of the step //$ if rows_in_order
    __device__ __forceinline__ void weigh_as(const attention_params &p, const Where &at, int query0, int key, int ahead) { //$ else
        //$ if clears_scored and dq_added
        if (MASKED && begin == 0) // the scores of one query and this thread's two keys //$ if rows_in_order
        if constexpr (MASKED) // the scores of one query and this thread's two keys     //$ else
            clear_scored<16>(shared.k[opaque(items.stage())][opaque(index)], warp_index() % 4 * 16, s[0] + s[2]);
        if constexpr (MASKED) clear_scored<STEP_M>(shared.q[ring.stage()], 0, lse2.sum()); //$ if clears_in_step
        //$ elif clears_scored and apart
        if constexpr (MASKED && DK) { // the scores of this thread's queries and one key
            float score = 0;
#pragma unroll
            for (int i = 0; i < STEP_M / 2; i += i % 2 ? 3 : 1)
                score += s[i];
            clear_scored<STEP_M>(shared.q[(ring + ahead).stage()], 0, score);
        }
        //$ end
        weigh_keys<MASKED>(s,
                           weights, //$ if slopes_differ
                           p, at,
                           score_keys(ahead), //$ if score == custom_score and not added_ahead
                           seen,        //$ if mask == custom_mask
                           added,       //$ if added_ahead
                           kept_ahead,            //$ if slopes_differ and dropout == 1 and kept_stages == 1
                           kept_in_shared(ahead), //$ elif slopes_differ and dropout == 1
                           begin, end, //$ if rows_in_order
                           lse2, query0, key);
    }

    // Issues dP^T (64 keys, STEP_M) = V dO^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_d_weights(int ahead) {
        wgmma_fence();
        multiply_own_rows<HEAD_DIM_V, STEP_M>(d_weight, v,                                          //$ if keys_in_registers
        multiply_rows<HEAD_DIM_V, STEP_M>(d_weight,                                                 //$ else
                                          matrix_descriptor(shared.v[values().stage()][index], 0),
                                          matrix_descriptor(d_o_tiles<DK>(shared)[d_o(ahead).stage()], 0));
        wgmma_commit();
    }

    // Issues dV (64 keys, dv) += P^T dO.
    __device__ __forceinline__ void add_dv() {
        pack_kept(weights, s, kept);              //$ if not slopes_differ and dropout == 1 and kept_stages == 1
        pack_kept(weights, s, kept_in_shared(0)); //$ elif not slopes_differ and dropout == 1
        pack_values(weights, s);                  //$ elif not slopes_differ
        wgmma_fence();
        add_weighted<HEAD_DIM_V, STEP_M>(dv[0], weights, matrix_descriptor(d_o_tiles<DK>(shared)[d_o().stage()], STEP_M * 128));
        wgmma_commit();
    }

    //$ if not products_within_step
    // Computes dS^T from dP^T and the slopes.
    __device__ __forceinline__ void weigh_gradients() {
        wgmma_settle(d_weight);
        drop_gradients(d_weight, kept, all.dropout_factor);              //$ if dropout == 1 and kept_stages == 1
        drop_gradients(d_weight, kept_in_shared(0), all.dropout_factor); //$ elif dropout == 1
        if (whole)
            weigh_key_gradients<false>(d_s, d_weight, s, dots);
        else
            weigh_key_gradients<true>(d_s, d_weight, s, dots);
    }
    //$ end

    //$ if dq_staged
    __device__ __forceinline__ DqPart part_of_dq() const {
        return {sums, item().key0 / BLOCK_N}; //$ if dq_ordered
        return {sums};                        //$ else
    }
    //$ end

    // Issues dK (64 keys, d) += dS^T Q.
    __device__ __forceinline__ void add_dk() {
        wgmma_fence();
        add_weighted<HEAD_DIM, STEP_M>(dk[0], d_s, matrix_descriptor(shared.q[ring.stage()], STEP_M * 128));
        wgmma_commit();
    }

    // Releases Q and its statistics, which each warp reads itself.
    __device__ __forceinline__ void release_queries(int ahead = 0) {
        release(&shared.q_empty[(ring + ahead).stage()]); // every warp has shared its dS since it read them //$ if dq_added
        release_by_warps(&shared.q_empty[(ring + ahead).stage()]);                                           //$ else
    }
    __device__ __forceinline__ void release_d_o() { release(&shared.d_o_empty[d_o().stage()]); }

    // Stores dK and dV of the item to memory. //$ if not items_in_parts
    // Stores dK and dV of the item to memory, unless other parts of the item are still missing. //$ else
    __device__ __forceinline__ void store() {
        if (!join_parts<DK, DV>(all, item(), 4 * index + warp_index() % 4, dk[0], dv[0])) return; //$ if items_in_parts
        const int kv_index = same_in_warp(item().kv_index);
        const attention_backward_params &own = tensors_of_keys(params, kv_index);
        const attention_params &p = own.forward;
        const int row0 = same_in_warp(first_key());
        const int kv_head = kv_index % p.kv_heads, batch = kv_index / p.kv_heads;
        const float factor_of_dv = p.dropout_factor; //$ if dropout == 1
        const float factor_of_dv = 1;                //$ else
        const bool again_dk = DK && wants_repeat(dk[0]) && row0 < p.len_kv;
        const bool again_dv = DV && wants_repeat(dv[0]) && row0 < p.len_kv;
        Nonfinite<DK ? HEAD_DIM / 2 : 1> nonfinite_dk;
        Nonfinite<DV ? HEAD_DIM_V / 2 : 1> nonfinite_dv;
        if (again_dk)
            nonfinite_dk = nonfinite_sums(dk[0], p.len_kv - row0);
        if (again_dv)
            nonfinite_dv = nonfinite_sums(dv[0], p.len_kv - row0);
        if constexpr (DK)
            store_rows<HEAD_DIM>(dk, p.scale, own.dk, own.dk_batch_stride, own.dk_head_stride, own.dk_row_stride, batch,
                                 kv_head, row0, p.len_kv - row0);
        if constexpr (DV)
            store_rows<HEAD_DIM_V>(dv, factor_of_dv, own.dv, own.dv_batch_stride, own.dv_head_stride, own.dv_row_stride, batch,
                                   kv_head, row0, p.len_kv - row0);
        // after the stores: the sums are no longer in registers
        if constexpr (DK)
            if (again_dk)
                repeat_dk<columns_of_pass(HEAD_DIM)>(own, kv_index, row0, nonfinite_dk);
        if constexpr (DV)
            if (again_dv)
                repeat_dv<columns_of_pass(HEAD_DIM_V)>(own, kv_index, row0, nonfinite_dv);
    }
};
