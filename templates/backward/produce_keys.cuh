//$ needs mask score block_m panels panels_v consumers stages v_stages step_n
//$ include "backward/map_rows.cuh"

// One warp loads Q and dO of the block, then the K and V tiles in which any of its queries sees a key.
__device__ __forceinline__ void produce_keys(const attention_backward_tma_params &params, SharedQueries &shared, int index, int query0) {
    const attention_params &all = params.backward.forward;
    const int head = index % all.heads, batch = index / all.heads, kv_head = head / (all.heads / all.kv_heads);
    const bool elected = elect_one();
    const Where at = where_is(all, index);
    KeyTiles walk = key_tiles(own_sequence(all, shared), at, query0);
    int key = next_keys(own_sequence(all, shared), at, walk);
    if (elected && key >= 0) {
        const attention_params &p = own_sequence(all, shared);
        barrier_expect(&shared.queries_full, BLOCK_M * 128 * (PANELS + PANELS_V));
#pragma unroll 1
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            const int query = map_query(p, query0 + 64 * consumer);
#pragma unroll 1
            for (int panel = 0; panel < PANELS; panel++)
                tma_load(shared.q[consumer][panel], &params.q_map, &shared.queries_full, panel * 64, query, head,
                         map_batch(batch));
#pragma unroll 1
            for (int panel = 0; panel < PANELS_V; panel++)
                tma_load(shared.d_o[consumer][panel], &params.d_o_map, &shared.queries_full, panel * 64, query, head,
                         map_batch(batch));
        }
    }
#pragma unroll 1
    for (Ring<STAGES> ring = {0};; ring.count++, key = next_keys(own_sequence(all, shared), at, walk)) {
        const attention_params &p = own_sequence(all, shared);
        const Ring<V_STAGES> ring_v = {ring.count};
        const int stage = ring.stage(), stage_v = ring_v.stage();
        Barrier *const k_full = &shared.k_full[stage], *const v_full = &shared.v_full[stage_v];
        const bool last = key < 0;
        unsigned whole = 0;
#pragma unroll
        for (int consumer = 0; consumer < CONSUMERS; consumer++)
            whole |= static_cast<unsigned>(!last && all_pairs_seen(p, at, query0 + 64 * consumer, 64, key, STEP_N)) << consumer;
        barrier_wait(&shared.k_empty[stage], ring.parity() ^ 1);
        if (elected) {
            Step &step = shared.step[stage];
            step.first = key;
            step.whole = whole;
            step.where = at; //$ if mask == custom_mask or score == custom_score
            if (last)
                barrier_arrive(k_full);
            else
                barrier_expect(k_full, STEP_N * 128 * PANELS);
#pragma unroll 1
            for (int panel = 0; panel < PANELS && !last; panel++)
#pragma unroll 1
                for (int row = 0; row < STEP_N; row += 64)
                    tma_load(shared.k[stage][panel][row], &params.k_map, k_full, panel * 64, map_key(p, key + row), kv_head,
                             map_batch(batch));
        }
        barrier_wait(&shared.v_empty[stage_v], ring_v.parity() ^ 1);
        if (elected) {
            if (last)
                barrier_arrive(v_full);
            else
                barrier_expect(v_full, STEP_N * 128 * PANELS_V);
#pragma unroll 1
            for (int panel = 0; panel < PANELS_V && !last; panel++)
#pragma unroll 1
                for (int row = 0; row < STEP_N; row += 64)
                    tma_load(shared.v[stage_v][panel][row], &params.v_map, v_full, panel * 64, map_key(p, key + row), kv_head,
                             map_batch(batch));
        }
        if (last)
            break;
    }
}
