//$ needs split_keys store consumers panels panels_v q_stages layout changes_sequence

// One thread assigns Q tiles to the other roles, stores their O by TMA, and loads their Q.

// Stores O of a consumer by TMA, from the buffer that held its Q.
__device__ __forceinline__ void store_output(const attention_tma_params &p, Shared &shared, Tile tile, int stage, int consumer) {
    for (int panel = 0; panel < PANELS_V; panel++)
        tma_store(&p.o_map, shared.q[stage][consumer][panel], panel * 64,
                  tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, tile.batch);
    tma_store_commit();
    tma_store_wait_read();
}

// Rows of packed sequences are numbered over all sequences, and have no batch. //$ if layout == ragged
__device__ __forceinline__ void load_queries_of(const attention_tma_params &p, Shared &shared, Tile tile, int stage,
                                                int consumer) {
    Barrier *full = &shared.q_full[stage][consumer];
    const int first = p.attention.cu_seqlens_q[tile.batch]; //$ if layout == ragged
    barrier_expect(full, PANELS * rows_of_unit(p.attention) * 128);
    for (int panel = 0; panel < PANELS; panel++)
        tma_load(shared.q[stage][consumer][panel], &p.q_map, full, panel * 64,
                 first + tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, 0);  //$ if layout == ragged
                 tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, tile.batch); //$ else
}

// The first tile of the block has been handed out; `queue` holds the others. After the last tile come as many empty
// tiles as there are Q buffers, so that O of the last tiles is stored.
__device__ __forceinline__ void produce_tiles(const attention_tma_params &p, Shared &shared, TileQueue &queue) {
    Ring<2> ring = {0};
    Ring<Q_STAGES> queries = {0};
    Tile tile = shared.tile[0];
    Tile leaving = tile; // the tile whose O is in this buffer, once the ring has wrapped //$ if store == tma
#pragma unroll 1
    for (int empty = 0;;) {
        int stage = queries.stage();
#pragma unroll 1
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_wait(&shared.q_empty[stage][consumer], queries.parity() ^ 1);
            //$ if store == tma
            if (queries.count >= Q_STAGES && p.attention.splits == 1) // parts of O go to the workspace //$ if split_keys > 0
            if (queries.count >= Q_STAGES)                                                              //$ else
                store_output(p, shared, leaving, stage, consumer);
            //$ end
            if (tile.query >= 0)
                load_queries_of(p, shared, tile, stage, consumer);
        }
        empty += tile.query < 0;
        if (empty == Q_STAGES)
            return;
        ring.count++, queries.count++;
        //$ if changes_sequence
        // Takes an item only once there is room for its Q. Otherwise blocks would hold items that other blocks could begin.
#pragma unroll 1
        for (int consumer = 0; consumer < CONSUMERS; consumer++)
            barrier_wait(&shared.q_empty[queries.stage()][consumer], queries.parity() ^ 1);
        take_item(p.attention, queue);
        //$ end
        tile = next_tile(p.attention, queue);
        barrier_wait(&shared.tile_empty[ring.stage()], ring.parity() ^ 1);
        leaving = shared.tile[(ring + Q_STAGES).stage()]; //$ if store == tma
        hand_out(shared, ring, tile, queue.sequence); //$ if changes_sequence
        hand_out(shared, ring, tile);                 //$ else
    }
}
