// One thread hands out tiles of queries, has their O taken away, and copies their Q in.
//$ if store == tma

// O leaves from where Q was.
__device__ __forceinline__ void store_output(const attention_tma_params &p, Shared &shared, Tile tile, int stage, int consumer) {
    for (int panel = 0; panel < PANELS_V; panel++)
        tma_store(&p.o_map, shared.q[stage][consumer][panel], panel * 64,
                  tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, tile.batch);
    tma_store_commit();
    tma_store_wait_read();
}
//$ end

__device__ __forceinline__ void load_queries_of(const attention_tma_params &p, Shared &shared, Tile tile, int stage,
                                                int consumer) {
    Barrier *full = &shared.q_full[stage][consumer];
    barrier_expect(full, PANELS * rows_of_unit(p.attention) * 128);
    for (int panel = 0; panel < PANELS; panel++)
        tma_load(shared.q[stage][consumer][panel], &p.q_map, full, panel * 64,
                 tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, tile.batch);
}

// After the last tile come as many empty ones as there are places of Q: O of those before leaves.
__device__ __forceinline__ void produce_tiles(const attention_tma_params &p, Shared &shared) {
    TileQueue queue = tile_queue(p.attention);
    Ring<2> ring = {0};
    Ring<Q_STAGES> queries = {0};
#pragma unroll 1
    for (int empty = 0; empty < Q_STAGES; ring.count++, queries.count++) {
        int stage = queries.stage();
        Tile tile = next_tile(p.attention, queue);
        barrier_wait(&shared.tile_empty[ring.stage()], ring.parity() ^ 1);
        //$ if store == tma
        Tile leaving = shared.tile[(ring + Q_STAGES).stage()]; // whose O is in this place of Q, from the second round on
        //$ end
        shared.tile[ring.stage()] = tile;
        barrier_arrive(&shared.tile_full[ring.stage()]);
#pragma unroll 1
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_wait(&shared.q_empty[stage][consumer], queries.parity() ^ 1);
            //$ if store == tma
            if (queries.count >= Q_STAGES)
                store_output(p, shared, leaving, stage, consumer);
            //$ end
            if (tile.query >= 0)
                load_queries_of(p, shared, tile, stage, consumer);
        }
        empty += tile.query < 0;
    }
}
