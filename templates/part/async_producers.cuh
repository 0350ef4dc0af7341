// The producers: single threads that keep the copy unit busy, and perhaps a warp that copies by itself. They wait for room, and what they bring fills a barrier.
// Shared, Ring and take_tile are the kernel's.

//$ if store == tma
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
    int queries = queries_of_unit(p.attention);
    barrier_expect(full, PANELS * queries * heads_of_tile(p.attention) * 128);
    for (int panel = 0; panel < PANELS; panel++)
        tma_load(shared.q[stage][consumer][panel], &p.q_map, full, panel * 64, tile.query + unit_of(consumer) * queries,
                 tile.head, tile.batch);
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

// Tiles of K, or of V: one tensor, one ring of stages.
template <int PANELS_OF, int STAGES_OF>
__device__ __forceinline__ void produce_keys(const attention_params &p, Shared &shared, const tensor_map &map,
                                             Panels<PANELS_OF, BLOCK_N> *to, Barrier *full, Barrier *empty) {
    Ring<2> tiles = {0};
    Ring<STAGES_OF> ring = {0};
    //$ if cluster > 1
    int first = cluster_rank() * SHARE; // of each tile of keys, every block loads a share of the rows for all
    //$ end
#pragma unroll 1
    for (;;) {
        Tile tile = take_tile(shared, tiles);
        barrier_arrive(&shared.tile_empty[(tiles + 1).stage()]);
        if (tile.query < 0)
            break;
        KeyWalk walk = walk_of_tile(p, tile);
#pragma unroll 1
        for (; walk.left > 0; ring.count++) {
            int i = next_keys(p, tile, UNITS, walk), stage = ring.stage();
            barrier_wait(&empty[stage], ring.parity() ^ 1);
            barrier_expect(&full[stage], PANELS_OF * BLOCK_N * 128);
#pragma unroll 1
            for (int panel = 0; panel < PANELS_OF; panel++)
                //$ if cluster > 1
                tma_load_multicast(to[stage][panel][first], &map, &full[stage], (1 << CLUSTER) - 1, panel * 64,
                                   i * BLOCK_N + first, tile.kv_head, tile.batch);
                //$ else
                tma_load(to[stage][panel], &map, &full[stage], panel * 64, i * BLOCK_N, tile.kv_head, tile.batch);
                //$ end
        }
    }
}
//$ if score_bias == bias_rows

// What the score adds: rows of its tensor for one unit of queries, columns of one tile of keys. LANES neighbours copy a row.
__device__ __forceinline__ void copy_ahead(const attention_params &p, const Tile &tile, int query, int key, Ahead &to) {
    constexpr int LANES = BLOCK_N % 32 == 0 ? 4 : 2;
    const int lane = threadIdx.x % 32, column = lane % LANES * 8;
#pragma unroll 1
    for (int row = lane / LANES; row < 64; row += 32 / LANES) {
        const unsigned short *from = element_ahead(p, {tile.batch, tile.head, tile.kv_head},
                                                   position_of(p, min(query + row, p.len_q - 1)), key + column);
#pragma unroll
        for (int i = 0; i < BLOCK_N; i += 8 * LANES)
            copy_piece(&to[row][column + i], from + i);
    }
}

// By all lanes of a warp.
__device__ __forceinline__ void produce_ahead(const attention_params &p, Shared &shared) {
    Ring<2> tiles = {0};
    Ring<AHEAD_STAGES> ring = {0};
    const bool copies = rows_in_pieces(p);
#pragma unroll 1
    for (;;) {
        Tile tile = take_tile(shared, tiles);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(tiles + 1).stage()]);
        if (tile.query < 0)
            break;
        if (!copies)
            continue;
        KeyWalk walk = walk_of_tile(p, tile);
#pragma unroll 1
        for (; walk.left > 0; ring.count++) {
            int i = next_keys(p, tile, UNITS, walk), stage = ring.stage();
#pragma unroll 1
            for (int consumer = 0; consumer < CONSUMERS; consumer++) {
                barrier_wait(&shared.ahead_empty[stage][consumer], ring.parity() ^ 1);
                if ((i + 1) * BLOCK_N <= p.len_kv) // else consumers do it
                    copy_ahead(p, tile, tile.query + unit_of(consumer) * queries_of_unit(p), i * BLOCK_N,
                               shared.ahead[stage][consumer]);
                barrier_arrive_copied(&shared.ahead_full[stage][consumer]);
            }
        }
    }
}
//$ end
