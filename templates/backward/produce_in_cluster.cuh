//$ needs clears_loaded block_keys panels panels_v stages d_o_stages step_m
//$ include "backward/items.cuh"
//$ include "backward/map_rows.cuh"
//$ include "backward/clear_loaded.cuh" if clears_loaded

// Takes the next item. The first block takes it from the counter, and copies it to the second, once the consumers of both have finished
// with the one before; `number`: how many items came before.
__device__ __forceinline__ const Item &take_item_together(const attention_params &p, SharedKeys &shared, const ItemCounter &counter,
                                                          Ring<1> number) {
    Item next;
    if (cluster_rank() == 0)
        next = take_item(p, counter, number.count == 0);
    barrier_wait(&shared.keys_empty, number.parity() ^ 1);
    if (elect_one()) {
        if (cluster_rank() == 0) {
            shared.item = next;
            fence_async();
            copy_to_block(&shared.item, &shared.item, sizeof shared.item, &shared.item_full, 1);
        } else
            barrier_expect(&shared.item_full, sizeof shared.item);
    }
    if (cluster_rank() == 1)
        barrier_wait(&shared.item_full, number.parity());
    __syncwarp();
    return shared.item;
}

// Loads K and V of this block's keys of an item, and K of the other's, for a barrier. Called by one thread.
__device__ __forceinline__ void load_keys(const attention_backward_tma_params &params, SharedKeys &shared, const Item &item,
                                          Barrier *full) {
    const attention_params &p = params.backward.forward;
    const int rank = cluster_rank(), kv_head = item.kv_index % p.kv_heads, batch = item.kv_index / p.kv_heads;
    const int key = item.key0 + BLOCK_KEYS * rank, other = item.key0 + BLOCK_KEYS * (rank ^ 1);
    barrier_expect(full, BLOCK_KEYS * 128 * (PANELS + PANELS_V + PANELS_OF_DQ));
#pragma unroll 1
    for (int panel = 0; panel < PANELS; panel++)
        tma_load(shared.k[panel], &params.k_map, full, panel * 64, key, kv_head, batch);
#pragma unroll 1
    for (int panel = 0; panel < PANELS_OF_DQ; panel++)
        tma_load(shared.k_other[panel], &params.k_map, full, (PANELS_OF_DQ * rank + panel) * 64, other, kv_head, batch);
#pragma unroll 1
    for (int panel = 0; panel < PANELS_V; panel++)
        tma_load(shared.v[panel], &params.v_map, full, panel * 64, key, kv_head, batch);
}

// Loads this block's half of the columns of a tile of queries into both blocks. Called by one thread.
template <int PANELS_OF>
__device__ __forceinline__ void load_half(Panels<PANELS_OF, STEP_M> &tile, const tensor_map *map, Barrier *full, int query, int head,
                                          int batch) {
    constexpr int HALF = PANELS_OF / 2;
#pragma unroll 1
    for (int panel = HALF * cluster_rank(); panel < HALF * (cluster_rank() + 1); panel++)
        tma_load_multicast(tile[panel], map, full, 3, panel * 64, query, head, batch);
}

//$ if clears_loaded
// Returns the barrier for which a tile is loaded. Both blocks load halves of it, so each stage has a barrier for tiles with a NaN, and if the
// tile has none, one thread completes the phase of that barrier.
__device__ __forceinline__ Barrier *barrier_to_load(bool nan, Barrier *nan_full, Barrier *full) {
    if (!nan)
        barrier_arrive(nan_full);
    return nan ? nan_full : full;
}

//$ end
// One warp of each block loads the tiles of queries, then publishes a step without queries to mark the end of the item.
// If CLEARS_NAN, it takes NaN out of tiles. //$ if clears_loaded
template <bool CLEARS_NAN> //$ if clears_loaded
__device__ __forceinline__ void produce_steps(const attention_backward_tma_params &params, SharedKeys &shared, const Item &item,
                                              NanOfQueries nan_of_head, //$ if clears_loaded
                                              Ring<STAGES> &ring) {
    const attention_params &p = params.backward.forward;
    const int batch = item.kv_index / p.kv_heads;
    const bool elected = elect_one();
    QueryTiles walk = queries_of(p, item);
    bool more = true;
#pragma unroll 1
    for (; more; ring.count++) {
        const OtherTile tile = next_queries(p, walk);
        const int head = tile.index % p.heads;
        const Ring<D_O_STAGES> ring_d_o = {ring.count};
        const int stage = ring.stage(), stage_d_o = ring_d_o.stage();
        Barrier *const q_full = &shared.q_full[stage], *const d_o_full = &shared.d_o_full[stage_d_o];
        const NanOfStep nan = CLEARS_NAN ? nan_of_step(p, tile, item.key0, nan_of_head) : NanOfStep{false, false}; //$ if clears_loaded
        more = tile.first >= 0;
        barrier_wait(&shared.q_empty[stage], ring.parity() ^ 1);
        if (elected) {
            Barrier *const q_loaded = CLEARS_NAN ? barrier_to_load(nan.q, &shared.nan_q_full[stage], q_full) : q_full; //$ if clears_loaded
            Barrier *const q_loaded = q_full; //$ else
            Step &step = shared.step[stage];
            step.first = tile.first;
            step.whole = tile.whole;
            if (!more)
                barrier_arrive(q_full);
            else {
                step.sums = tile_of_query(p, tile.index, tile.first);
                barrier_expect(q_loaded, STEP_M * 128 * PANELS + 2 * STEP_M * 4);
                load_half<PANELS>(shared.q[stage], &params.q_map, q_loaded, tile.first, head, batch);
                tma_load_floats(shared.lse2[stage], row_lse2(p, tile.index) + tile.first, STEP_M * 4, q_loaded);
                tma_load_floats(shared.dot[stage], row_dots(p, tile.index) + tile.first, STEP_M * 4, q_loaded);
            }
        }
        //$ if clears_loaded
        if (nan.q) {
            barrier_wait(&shared.nan_q_full[stage], ring.parity());
            hand_on_without_nan(shared.q[stage], q_full);
        }
        //$ end
        barrier_wait(&shared.d_o_empty[stage_d_o], ring_d_o.parity() ^ 1);
        if (elected) {
            Barrier *const d_o_loaded = CLEARS_NAN ? barrier_to_load(nan.d_o, &shared.nan_d_o_full[stage_d_o], d_o_full) : d_o_full; //$ if clears_loaded
            Barrier *const d_o_loaded = d_o_full; //$ else
            if (!more)
                barrier_arrive(d_o_full);
            else {
                barrier_expect(d_o_loaded, STEP_M * 128 * PANELS_V);
                load_half<PANELS_V>(shared.d_o[stage_d_o], &params.d_o_map, d_o_loaded, tile.first, head, batch);
            }
        }
        //$ if clears_loaded
        if (nan.d_o) {
            barrier_wait(&shared.nan_d_o_full[stage_d_o], ring_d_o.parity());
            hand_on_without_nan(shared.d_o[stage_d_o], d_o_full);
        }
        //$ end
    }
}

// One warp of each block loads K, V and steps of the items that the cluster takes.
template <bool CLEARS_NAN> //$ if clears_loaded
__device__ __forceinline__ void produce(const attention_backward_tma_params &params, SharedKeys &shared, const ItemCounter &counter) {
    const attention_params &p = params.backward.forward;
    const bool elected = elect_one();
    Ring<STAGES> steps = {0};
#pragma unroll 1
    for (Ring<1> items = {0};; items.count++) {
        const Item &item = take_item_together(p, shared, counter, items);
        if (item.key0 < 0) {
            if (elected)
                barrier_arrive(&shared.keys_full);
            break;
        }
        //$ if clears_loaded
        NanOfQueries nan = {};
        if constexpr (CLEARS_NAN)
            nan = nan_of_queries(p, item.kv_index * (p.heads / p.kv_heads), item.key0);
        if (elected)
            load_keys(params, shared, item,
                      CLEARS_NAN ? barrier_to_load(nan.q != 0, &shared.nan_keys_full, &shared.keys_full) : &shared.keys_full);
        if (nan.q != 0) {
            barrier_wait(&shared.nan_keys_full, items.parity());
            clear_nan(&shared.k_other[0][0][0], sizeof shared.k_other);
            hand_on_without_nan(shared.k, &shared.keys_full);
        }
        produce_steps<CLEARS_NAN>(params, shared, item, nan, steps);
        //$ else
        if (elected)
            load_keys(params, shared, item, &shared.keys_full);
        produce_steps(params, shared, item, steps);
        //$ end
    }
}
