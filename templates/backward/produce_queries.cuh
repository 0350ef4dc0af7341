//$ needs mask score block_n panels panels_v consumers stages d_o_stages step_m dq_added
//$ include "backward/map_rows.cuh"

// One warp loads K and V of the block, then the tiles of queries that see any of its keys. A lane copies 16 bytes of LSE or D for 64 queries.
__device__ __forceinline__ void produce_queries(const attention_backward_tma_params &params, SharedKeys &shared, int kv_index,
                                                int key0) {
    const attention_params &all = params.backward.forward;
    const int kv_head = kv_index % all.kv_heads, batch = kv_index / all.kv_heads, group = all.heads / all.kv_heads;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    //$ if dq_added
    int sums = 0, sums_before = 0; // of the steps before
    //$ end
    const bool elected = elect_one();
    QueryTiles walk = query_tiles(own_sequence(all, shared), kv_index * group, group, key0);
    OtherTile tile = next_queries(own_sequence(all, shared), walk);
    if (elected && tile.first >= 0) {
        const attention_params &p = own_sequence(all, shared);
        barrier_expect(&shared.keys_full, BLOCK_N * 128 * (PANELS + PANELS_V));
#pragma unroll 1
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
#pragma unroll 1
            for (int panel = 0; panel < PANELS; panel++)
                tma_load(shared.k[consumer][panel], &params.k_map, &shared.keys_full, panel * 64, map_key(p, key0 + 64 * consumer),
                         kv_head, map_batch(batch));
#pragma unroll 1
            for (int panel = 0; panel < PANELS_V; panel++)
                tma_load(shared.v[consumer][panel], &params.v_map, &shared.keys_full, panel * 64, map_key(p, key0 + 64 * consumer),
                         kv_head, map_batch(batch));
        }
    }
#pragma unroll 1
    for (Ring<STAGES> ring = {0};; ring.count++, tile = next_queries(own_sequence(all, shared), walk)) {
        const attention_params &p = own_sequence(all, shared);
        const Ring<D_O_STAGES> ring_d_o = {ring.count};
        const int stage = ring.stage(), stage_d_o = ring_d_o.stage(), head = tile.index % p.heads;
        Barrier *const q_full = &shared.q_full[stage], *const d_o_full = &shared.d_o_full[stage_d_o];
        const Where at = where_is(p, tile.index);
        const bool last = tile.first < 0, whole = !last && all_pairs_seen(p, at, tile.first, STEP_M, key0, BLOCK_N);
        barrier_wait(&shared.q_empty[stage], ring.parity() ^ 1);
        if (elected) {
            Step &step = shared.step[stage];
            step.first = tile.first;
            step.whole = whole;
            //$ if dq_added
            step.late_sums = sums_before;
            sums_before = sums;
            sums = last ? sums : tile_of_query(p, tile.index, tile.first);
            step.sums = sums;
            //$ end
            step.where = at; //$ if mask == custom_mask or score == custom_score
            if (last) // nothing comes behind it
                barrier_arrive(q_full);
            else
                barrier_expect(q_full, STEP_M * 128 * PANELS);
#pragma unroll 1
            for (int panel = 0; panel < PANELS && !last; panel++)
                tma_load(shared.q[stage][panel], &params.q_map, q_full, panel * 64, map_query(p, tile.first), head,
                         map_batch(batch));
        }
        if (!last) {
            const float *const from = (lane < 16 ? row_lse2(p, tile.index) : row_dots(p, tile.index)) + tile.first;
#pragma unroll
            for (int i = lane % 16 * 4; i < STEP_M; i += 64)
                copy_piece(&(lane < 16 ? shared.lse2 : shared.dot)[stage][i], from + i);
        }
        barrier_arrive_copied(q_full);
        barrier_wait(&shared.d_o_empty[stage_d_o], ring_d_o.parity() ^ 1);
        if (elected) {
            if (last)
                barrier_arrive(d_o_full);
            else
                barrier_expect(d_o_full, STEP_M * 128 * PANELS_V);
#pragma unroll 1
            for (int panel = 0; panel < PANELS_V && !last; panel++)
                tma_load(shared.d_o[stage_d_o][panel], &params.d_o_map, d_o_full, panel * 64, map_query(p, tile.first), head,
                         map_batch(batch));
        }
        if (last)
            break;
    }
}
