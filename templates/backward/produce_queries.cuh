//$ needs clears_loaded products_within_step values_apart tma_statistics mask score block_n panels panels_v stages key_stages step_m dq_added dq_in_turn by_role most_shares divides_heads batches_together tiles_found_ahead part_keys
//$ include "backward/items.cuh"
//$ include "backward/map_rows.cuh"
//$ include "backward/d_o_tiles.cuh"
//$ include "backward/find_tiles.cuh" if tiles_found_ahead
//$ include "backward/clear_loaded.cuh" if clears_loaded

// Loads K of an item for a barrier. Called by one thread. //$ if values_apart
// Loads K and V of an item, or K alone, for a barrier. Called by one thread. //$ else
template <bool READS_V>
__device__ __forceinline__ void load_keys(const attention_backward_tma_params &params, SharedKeys &shared, const Item &item, int stage,
                                          Barrier *full) {
    const attention_params &p = own_sequence(params.backward.forward, item);
    const int kv_head = item.kv_index % p.kv_heads, batch = map_batch(item.kv_index / p.kv_heads);
    barrier_expect(full, BLOCK_N * 128 * PANELS);                                //$ if values_apart
    barrier_expect(full, BLOCK_N * 128 * (PANELS + (READS_V ? PANELS_V : 0))); //$ else
#pragma unroll 1
    for (int part = 0; part < KEY_PARTS; part++) {
        const int key = map_key(p, item.key0 + PART_KEYS * part);
#pragma unroll 1
        for (int panel = 0; panel < PANELS; panel++)
            tma_load(shared.k[stage][part][panel], &params.k_map, full, panel * 64, key, kv_head, batch);
        //$ if not values_apart
#pragma unroll 1
        for (int panel = 0; READS_V && panel < PANELS_V; panel++)
            tma_load(shared.v[stage][part][panel], &params.v_map, full, panel * 64, key, kv_head, batch);
        //$ end
    }
}
//$ if values_apart

// Loads V of an item. Called by one thread.
__device__ __forceinline__ void load_values(const attention_backward_tma_params &params, SharedKeys &shared, const Item &item) {
    const attention_params &p = own_sequence(params.backward.forward, item);
    const int kv_head = item.kv_index % p.kv_heads, batch = map_batch(item.kv_index / p.kv_heads);
    barrier_expect(&shared.values_full, BLOCK_N * 128 * PANELS_V);
#pragma unroll 1
    for (int part = 0; part < KEY_PARTS; part++)
#pragma unroll 1
        for (int panel = 0; panel < PANELS_V; panel++)
            tma_load(shared.v[0][part][panel], &params.v_map, &shared.values_full, panel * 64, map_key(p, item.key0 + PART_KEYS * part),
                     kv_head, batch);
}
//$ end

// One warp loads the tiles of queries that see any of an item's keys. An item that no query sees has a step without queries. //$ if products_within_step
// One warp loads the tiles of queries that see any of an item's keys, then publishes a step without queries to mark the end of the item. //$ else
// Each lane copies 16 bytes of LSE or D per 64 queries. //$ if not tma_statistics
// If CLEARS_NAN, it takes NaN out of tiles. //$ if clears_loaded
template <bool READS_V, bool CLEARS_NAN> //$ if clears_loaded
template <bool READS_V>                  //$ else
__device__ __forceinline__ void produce_steps(const attention_backward_tma_params &params, SharedKeys &shared, const Item &item,
                                              Ring<1> values, //$ if values_apart
                                              FoundTiles found, Ring<1> &ring_found, //$ if tiles_found_ahead
                                              NanOfQueries nan_of_head, Ring<1> &ring_nan, //$ if clears_loaded
                                              Ring<STAGES> &ring) {
    const attention_params &all = params.backward.forward;
    const int batch = item.kv_index / all.kv_heads;
    const int lane = static_cast<int>(threadIdx.x) % 32; //$ if not tma_statistics
    const bool elected = elect_one();
    int sums = -1;                   // of the previous step //$ if dq_in_turn
    int sums = -1, sums_before = -1; // of the two steps before //$ elif dq_added and not by_role and not products_within_step
    QueryTiles walk = queries_of(own_sequence(all, item), item); //$ if not tiles_found_ahead
    bool more = true;
    bool first = true; // step of the item //$ if values_apart
#pragma unroll 1
    for (; more; ring.count++) {
        const attention_params &p = own_sequence(all, item);
        const OtherTile tile = next_found(shared, found, ring_found); //$ if tiles_found_ahead
        const OtherTile tile = next_queries(p, walk);                 //$ else
        const Ring<D_O_TILES<READS_V>> ring_d_o = {ring.count};
        const int stage = ring.stage(), stage_d_o = ring_d_o.stage(), head = tile.index % p.heads;
        Barrier *const q_full = &shared.q_full[stage], *const d_o_full = &shared.d_o_full[stage_d_o];
        const Where at = where_is(p, tile.index);
        const bool empty = tile.first < 0;
        more = !empty && has_queries(p, walk); //$ if products_within_step
        more = !empty;                         //$ else
        //$ if clears_loaded
        const NanOfStep nan = CLEARS_NAN ? nan_of_step(p, tile, item.key0, nan_of_head) : NanOfStep{false, false};
        Barrier *const q_loaded = nan.q ? &shared.nan_full : q_full, *const d_o_loaded = nan.d_o ? &shared.nan_full : d_o_full;
        //$ else
        Barrier *const q_loaded = q_full, *const d_o_loaded = d_o_full;
        //$ end
        barrier_wait(&shared.q_empty[stage], ring.parity() ^ 1);
        if (elected) {
            Step &step = shared.step[stage];
            step.first = tile.first;
            step.whole = tile.whole;
            //$ if dq_in_turn
            step.late_sums = sums;
            sums = empty ? sums : tile_of_query(p, tile.index, tile.first);
            //$ elif by_role or products_within_step
            if (!empty)
                step.sums = tile_of_query(p, tile.index, tile.first);
            //$ elif dq_added
            step.late_sums = sums_before;
            sums_before = sums;
            sums = empty ? sums : tile_of_query(p, tile.index, tile.first);
            step.sums = sums;
            //$ end
            step.last = !more; //$ if products_within_step
            step.where = at; //$ if mask == custom_mask or score == custom_score
            if (empty)
                barrier_arrive(q_full);
            else
                barrier_expect(q_loaded, STEP_M * 128 * PANELS + 2 * STEP_M * 4); //$ if tma_statistics
                barrier_expect(q_loaded, STEP_M * 128 * PANELS);                   //$ else
#pragma unroll 1
            for (int panel = 0; panel < PANELS && !empty; panel++)
                tma_load(shared.q[stage][panel], &params.q_map, q_loaded, panel * 64, map_query(p, tile.first), head,
                         map_batch(batch));
            //$ if tma_statistics
            if (!empty) {
                tma_load_floats(shared.lse2[stage], row_lse2(p, tile.index) + tile.first, STEP_M * 4, q_loaded);
                tma_load_floats(shared.dot[stage], row_dots(p, tile.index) + tile.first, STEP_M * 4, q_loaded);
            }
            //$ end
        }
        if (nan.q) hand_on_without_nan(shared, ring_nan, shared.q[stage], q_full); //$ if clears_loaded
        //$ if not tma_statistics
        if (!empty) {
            const float *const from = (lane < 16 ? row_lse2(p, tile.index) : row_dots(p, tile.index)) + tile.first;
#pragma unroll
            for (int i = lane % 16 * 4; i < STEP_M; i += 64)
                copy_piece(&(lane < 16 ? shared.lse2 : shared.dot)[stage][i], from + i);
        }
        barrier_arrive_copied(q_full);
        //$ end
        //$ if values_apart
        if (first) {
            barrier_wait(&shared.values_empty, values.parity() ^ 1);
            if (elected)
                load_values(params, shared, item);
            first = false;
        }
        //$ end
        barrier_wait(&shared.d_o_empty[stage_d_o], ring_d_o.parity() ^ 1);
        if (elected) {
            if (empty)
                barrier_arrive(d_o_full);
            else
                barrier_expect(d_o_loaded, STEP_M * 128 * PANELS_V);
#pragma unroll 1
            for (int panel = 0; panel < PANELS_V && !empty; panel++)
                tma_load(d_o_tiles<READS_V>(shared)[stage_d_o][panel], &params.d_o_map, d_o_loaded, panel * 64, map_query(p, tile.first),
                         head, map_batch(batch));
        }
        if (nan.d_o) hand_on_without_nan(shared, ring_nan, d_o_tiles<READS_V>(shared)[stage_d_o], d_o_full); //$ if clears_loaded
    }
}

//$ if mask == causal and key_stages > 1
// True if items are few and long. A block then takes the next item only after finishing its own: even shares gain more than loading ahead.
__device__ __forceinline__ bool takes_late(const attention_params &p, int parts) {
    const int items = parts * p.batch * p.kv_heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N), steps = p.heads / p.kv_heads * p.len_q / STEP_M;
    return items <= 4 * static_cast<int>(gridDim.x) && steps >= 64 * parts;
}

//$ end
// One warp loads K, V and steps of the items that another one takes. //$ if tiles_found_ahead
// One warp takes items, and loads their K, V and steps.              //$ else
template <bool READS_V, bool CLEARS_NAN> //$ if clears_loaded
template <bool READS_V>                  //$ else
__device__ __forceinline__ void produce_queries(const attention_backward_tma_params &params, SharedKeys &shared) { //$ if tiles_found_ahead
__device__ __forceinline__ void produce_queries(const attention_backward_tma_params &params, SharedKeys &shared, const ItemCounter &counter) { //$ else
    const bool elected = elect_one();
    Ring<STAGES> steps = {0};
    Ring<1> ring_nan = {0}; //$ if clears_loaded
    Ring<1> ring_found = {0}; //$ if tiles_found_ahead
    OpenShare open = {0, 0}; //$ if most_shares > 0
    //$ if mask == causal and key_stages > 1
    const bool late = takes_late(params.backward.forward, shared.shares.parts);   //$ if most_shares > 0
    const bool late = takes_late(params.backward.forward, counter.parts);         //$ elif divides_heads == 1
    const bool late = takes_late(params.backward.forward, 1);                     //$ else
    //$ end
    //$ if batches_together
    const bool together = sets_elements(params.backward, static_cast<int>(gridDim.x));
    OpenTile open = {};
    //$ end
#pragma unroll 1
    for (Ring<KEY_STAGES> items = {0};; items.count++) {
        const int stage = items.stage();
        //$ if mask == causal and key_stages > 1
        const Ring<KEY_STAGES> before = items + -1;
        if (late && items.count > 0 && open.next == open.end) //$ if most_shares > 0
        if (late && items.count > 0)                          //$ else
            barrier_wait(&shared.keys_empty[before.stage()], before.parity());
        //$ end
        const Item item = take_item(params.backward.forward, counter, shared.shares, open, items.count == 0); //$ if most_shares > 0
        const Item item = take_item(params.backward.forward, counter, open, together, items.count == 0);       //$ elif batches_together
        const FoundTiles found = take_found(shared, ring_found);                                              //$ elif tiles_found_ahead
        const Item item = take_item(params.backward.forward, counter, items.count == 0);                       //$ else
        //$ if clears_loaded
        const attention_params &p = own_sequence(params.backward.forward, item);
        NanOfQueries nan = {};
        if constexpr (CLEARS_NAN)
            nan = nan_of_queries(p, item.kv_index * (p.heads / p.kv_heads), item.key0);
        //$ end
        barrier_wait(&shared.keys_empty[stage], items.parity() ^ 1);
        const Item &item = found.item; //$ if tiles_found_ahead
        Barrier *const keys_full = &shared.keys_full[stage];
        //$ if clears_loaded and dq_added
        Barrier *const keys_loaded = nan.q != 0 ? &shared.nan_full : keys_full;
        //$ else
        Barrier *const keys_loaded = keys_full;
        //$ end
        if (elected) {
            shared.item[items.count % ITEMS_KEPT] = item;
            if (item.key0 < 0)
                barrier_arrive(keys_full);
            else
                load_keys<READS_V>(params, shared, shared.item[items.count % ITEMS_KEPT], stage, keys_loaded);
        }
        if (nan.q != 0) hand_on_without_nan(shared, ring_nan, shared.k[stage], keys_full); //$ if clears_loaded and dq_added
        if (item.key0 < 0)
            break;
        __syncwarp();
        produce_steps<READS_V, CLEARS_NAN>(params, shared, shared.item[items.count % ITEMS_KEPT], //$ if clears_loaded
        produce_steps<READS_V>(params, shared, shared.item[items.count % ITEMS_KEPT],             //$ else
                               {items.count},     //$ if values_apart
                               found, ring_found, //$ if tiles_found_ahead
                               nan, ring_nan,     //$ if clears_loaded
                               steps);
    }
}
