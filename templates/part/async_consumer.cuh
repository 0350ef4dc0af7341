//$ include "part/async_products.cuh"
//$ if repeats
//$ include "part/repeat_rows.cuh"
//$ end

// The consumers: warpgroups that multiply and weigh. One Consumer is what one of them does.

// All threads of the warpgroup are done with a stage.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
//$ if cluster > 1
// ... which all blocks of the cluster fill.
__device__ __forceinline__ void release_share(Barrier *empty) {
    if (warp_index() % 4 == 0 && threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
//$ else
__device__ __forceinline__ void release_share(Barrier *empty) { release(empty); }
//$ end

// Which keys the rows of one warpgroup see.
struct Span {
    Tile tile;
    int unseen; // tiles of keys that only other warpgroups see, before this one's
    //$ if not tile_map or in_turns
    int after; // and after those
    //$ end
    //$ if mask == custom_mask
    KeyWalk walk;
    __device__ __forceinline__ int left() const { return walk.left; } // tiles of keys to come
    //$ else
    int tiles;    // of keys, to come
    int unmasked; // tiles below need no mask
    __device__ __forceinline__ int left() const { return tiles; }
    //$ end
    int next;   // tile of keys that is weighed next
    bool whole; // no row of the warp needs a mask there
    //$ if intervals
    int first[2], end[2]; // keys that each of this thread's rows sees
    //$ elif mask == custom_mask
    Seen seen; // of the next tile, unless all is
    //$ else
    int end[2]; // one past the last key that each of this thread's rows sees
    //$ end
    //$ if mask == custom_mask or score == custom_score
    Where where;
    //$ end
    //$ if intervals or score == custom_score
    int position[2]; // of this thread's rows
    //$ end
};

// What one warpgroup does, with everything that it holds in registers: S, O, P and Q as 16-bit pairs where they are not in
// shared memory, and about 32 a thread besides, which the template's last requirement counts.
struct Consumer {
    const attention_tma_params &p;
    const attention_params &a;
    Shared &shared;
    int index, unit; // of the consumers of this block; of the tile's units of 64 rows
    int lane;        // of this thread
    float c;         // what makes exponents of 2 of what is in s: log2(e) times scale, or 1 where an expression has done so
    unsigned long long q, k, v;

    Ring<Q_STAGES> queries;
    int step; // tiles of keys that went through this warpgroup
    Span span;
    //$ if ahead > 0
    Ring<AHEAD_STAGES> ahead; // tiles that were scored, or went by
    //$ end
    //$ if rescale == from_sum and not plain_scores
    bool look; // for a maximum in the next tile
    //$ end
    //$ if score == custom_score
    float from[2]; // what its scores are taken less, for each of this thread's rows
    //$ end
    //$ if folded > 0
    Fold fold;
    float rest[2]; // of its scores, at this thread's first key
    //$ end
    Rows rows;
    float s[BLOCK_N / 2], o[HEAD_DIM_V / 2];
    //$ if weights_in == p_registers
    Weights weights;
    //$ end
    //$ if queries_in == q_registers
    Queries fragments;
    //$ end

    __device__ __forceinline__ Consumer(const attention_tma_params &p, Shared &shared, int index)
        : p(p), a(p.attention), shared(shared), index(index), unit(unit_of(index)), lane(threadIdx.x % 32),
          //$ if score == custom_score
          c(1),
          //$ else
          c(a.scale * LOG2_E),
          //$ end
          q(matrix_descriptor(shared.q[0][index], 0)), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0), span{} {
        //$ if ahead > 0
        ahead = {0};
        //$ end
    }

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values(int ahead = 0) const { return {step + ahead}; }

    // This thread's first row of the unit: the other is 8 further down. Needed once a tile of queries, so not kept.
    __device__ __forceinline__ int row() const { return set_apart(threadIdx.x) / 32 % 4 * 16 + lane / 4; }

    //$ if mask == custom_mask or score == custom_score
    // Of a row of the unit.
    __device__ __forceinline__ int position(int row) const {
        return position_of(a, min(row_of(a, span.tile, unit, row).query, a.len_q - 1));
    }
    //$ end

    // False when there is no further tile.
    __device__ __forceinline__ bool take() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        //$ if tile_map and not in_turns
        span.unseen = queries.count > 0 ? line_of(a, span.tile, unit)->after : 0; // of the tile before
        //$ else
        span.unseen = span.after; // of the tile before
        span.after = 0;
        //$ end
        span.tile = tile;
        //$ if mask == custom_mask or score == custom_score
        span.where = {tile.batch, tile.head, tile.kv_head};
        //$ end
        //$ if intervals or score == custom_score
        for (int r = 0; r < 2; r++)
            span.position[r] = position(row() + 8 * r);
        //$ end
        //$ if mask == custom_mask
        if (tile.query >= 0) {
            span.walk = walk_of_unit(a, tile, unit);
            span.unseen += span.walk.unseen;
            //$ if intervals
            span.after = span.walk.after;
            //$ end
        }
        //$ else
        int first = tile.query + unit * queries_of_unit(a);
        span.tiles = key_tiles(a, tile.query, queries_of_tile(a));
        //$ if not in_turns
        if (tile.query >= 0)
            span.unseen = span.tiles - (first < a.len_q ? key_tiles(a, first, queries_of_unit(a)) : 1);
        span.tiles -= span.unseen;
        //$ end
        //$ if mask == causal
        span.unmasked = max(0, keys_end(a, first + 1) - 1) / BLOCK_N; // one more than need be, so that m is known after it
        //$ else
        span.unmasked = keys_end(a, first + 1) / BLOCK_N;
        //$ end
        span.end[0] = keys_end(a, row_of(a, tile, unit, row()).query + 1);
        span.end[1] = keys_end(a, row_of(a, tile, unit, row() + 8).query + 1);
        //$ end
        //$ if intervals
        for (int r = 0; r < 2; r++) {
            Keys keys = keys_of(a, span.where, span.position[r], span.position[r]);
            span.first[r] = keys.first, span.end[r] = keys.end;
        }
        //$ end
        return tile.query >= 0;
    }

    // Bytes of unseen tiles are waited for, or a stage could be given back a round early.
    __device__ __forceinline__ void skip_unseen() {
        for (; span.unseen > 0; span.unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            //$ if ahead > 0
            if (await_ahead())
                ahead_done();
            //$ end
            named_barrier_sync(4 + index, 128); // or a warp that is late would not see the phase it waits for
            release_share(&shared.k_empty[keys(0).stage()]);
            release_share(&shared.v_empty[values().stage()]);
        }
    }
    // The next tile of queries, behind tiles of keys that are not for this warpgroup. False when there is none.
    __device__ __forceinline__ bool take_and_skip() {
        bool more = take();
        skip_unseen();
        return more;
    }

    __device__ __forceinline__ void begin_turn() {
        //$ if in_turns
        named_barrier_sync(1 + index, 256);
        //$ end
    }
    __device__ __forceinline__ void end_turn() {
        //$ if in_turns
        named_barrier_arrive(2 - index, 256);
        //$ end
    }

    __device__ __forceinline__ void issue_scores(Ring<K_STAGES> at) {
        barrier_wait(&shared.k_full[at.stage()], at.parity());
        begin_turn();
        wgmma_fence();
        //$ if queries_in == q_registers
        multiply_scores(s, fragments, k + at.stage() * (K_BYTES / 16));
        //$ else
        multiply_scores(s, q + queries.stage() * (Q_BYTES / 16), k + at.stage() * (K_BYTES / 16));
        //$ end
        wgmma_commit();
    }
    __device__ __forceinline__ void issue_output() {
        barrier_wait(&shared.v_full[values().stage()], values().parity());
        wgmma_fence();
        //$ if weights_in == p_shared
        multiply_output(o, matrix_descriptor(shared.p[index], 0), v + values().stage() * (V_BYTES / 16));
        //$ else
        multiply_output(o, weights, v + values().stage() * (V_BYTES / 16));
        //$ end
        wgmma_commit();
    }

    // Weights, as the next product wants them.
    __device__ __forceinline__ void keep_weights() {
        //$ if weights_in == p_shared
        store_weights(s, shared.p[index]);
        fence_async();
        named_barrier_sync(4 + index, 128);
        //$ else
        pack_weights(s, weights);
        //$ end
    }

    __device__ __forceinline__ void await_queries() {
        barrier_wait(&shared.q_full[queries.stage()][index], queries.parity());
        //$ if queries_in == q_registers
        load_queries(fragments, shared.q[queries.stage()][index]);
        //$ if store == direct
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.q_empty[queries.stage()][index]);
        //$ end
        //$ end
    }

    // The scores of tile i are there. `last`: no further S of these queries comes.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at, bool last) {
        wgmma_settle(s);
        release_share(&shared.k_empty[at.stage()]);
        //$ if store == direct and queries_in == q_shared
        if (last)
            release(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_share(&shared.v_empty[at.stage()]);
    }

    // What is known of a tile of keys before its scores are there.
    __device__ __forceinline__ void prepare() {
        find_next();
        //$ if rescale == from_sum and not plain_scores
        // Rows that have seen nothing yet, or only scores of -INFINITY, look for a maximum.
        look = !__all_sync(0xffffffffu, rows.max[0] > -INFINITY && rows.max[1] > -INFINITY);
        //$ end
        //$ if score == custom_score
#pragma unroll
        for (int r = 0; r < 2; r++) {
            //$ if rescale == from_sum
            from[r] = rows.max[r] == -INFINITY ? 0 : rows.max[r];
            //$ else
            from[r] = 0;
            //$ end
            //$ if folded > 0
            int key = span.next * BLOCK_N + lane % 4 * 2;
            rest[r] = rest_at(a, span.where, fold, span.position[r], key, from[r]);
            //$ end
        }
        //$ end
    }

//$ if score == custom_score
//$ include "part/async_scores.cuh"
//$ end

//$ include "part/async_masks.cuh"

    // S of the tile that is prepared -> weights. `first`: of its rows.
    __device__ __forceinline__ void weigh_tile(bool first) {
        //$ if mask == none
        bool masked = first && !span.whole;
        //$ else
        bool masked = !span.whole;
        //$ end
        //$ if rescale == from_sum and plain_scores and mask == none
        bool look = first; // for a maximum
        //$ elif rescale == from_sum and plain_scores
        bool look = masked; // for a maximum
        //$ end
        //$ if score == custom_score
        score_tile(span.next);
        //$ end
        if (masked)
            mask_scores();
        //$ if score == custom_score and rescale == from_sum
        softmax_onward(s, rows, from, look);
        //$ else
        //$ if rescale == from_sum and mask == none
        if (look)
            raise_max<4>(s, rows, c, masked); // if no row ends in it, a first guess at m is enough
        else
            follow_sums(rows, c);
        //$ else
        //$ if rescale == from_sum
        if (!look) {
            follow_sums(rows, c);
            return weigh(s, rows, c); // by itself, or ptxas moves the wait for O up to before the exponentials
        }
        //$ end
        raise_max<1>(s, rows, c, true);
        //$ end
        weigh(s, rows, c);
        //$ end
    }

    __device__ __forceinline__ void begin_rows() {
        //$ if folded > 0
        fold = fold_score(a, span.where);
        //$ end
        rows = no_rows();
        //$ if sinks > 0
        begin_with_sink(rows, sink_of(a, span.tile), lane % 4 == 0);
        //$ end
    }
    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &value : o)
            value = 0;
    }

//$ include "part/async_output.cuh"

    //$ if scores_ahead
    // S of the tile of keys ahead and O += P V of this one, both at once.
    __device__ __forceinline__ void issue_round() {
        issue_scores(keys(1));
        issue_output();
        end_turn();
        step++;
    }

    // From the first S of a tile of queries, issued, to all but the last P V.
    //$ if not plain_scores
    // One loop for all tiles of keys: the first has no O to wait for, but what makes weights of S is long.
    //$ end
    __device__ __forceinline__ void go_over_keys() {
        begin_rows();
        wgmma_wait<0>();
        //$ if plain_scores
        // The first tile of keys by itself: there is no O yet.
        prepare();
        scores_done(keys(0), span.left() == 0);
        weigh_tile(true);
        keep_weights();
        begin_output();
#pragma unroll 1
        while (span.left() > 0) {
            issue_round();
            prepare();
            wgmma_wait<1>(); // S is there, O is not
            scores_done(keys(0), span.left() == 0);
            weigh_tile(false);
            wgmma_wait<0>();
            output_done(values(-1));
            rescale(o, rows);
            keep_weights();
        }
        //$ else
        begin_output();
        const int tiles = span.left();
#pragma unroll 1
        while (true) {
            const bool first = span.left() == tiles;
            prepare();
            wgmma_wait<1>(); // S is there, O is not
            scores_done(keys(0), span.left() == 0);
            weigh_tile(first);
            wgmma_wait<0>();
            if (first)
                wgmma_settle(o);
            else
                output_done(values(-1));
            rescale(o, rows);
            keep_weights();
            if (span.left() == 0)
                break;
            issue_round();
        }
        //$ end
    }

    //$ if across
    __device__ __forceinline__ void run() {
        bool more = take_and_skip();
        if (!more)
            return;
        await_queries();
        issue_scores(keys(0));
        end_turn();
#pragma unroll 1
        while (more) {
            go_over_keys();
            // Across the border: the tile ahead belongs to the next queries, whose S is in registers beside this O. After
            // the last tile it is a product that nobody looks at: with a branch around it ptxas would do all of them one
            // after the other.
            Tile tile = span.tile;
            int stage = queries.stage();
            queries.count++;
            more = take();
            issue_output();
            Barrier *empty = &shared.v_empty[values().stage()];
            step++;
            bool early = span.unseen >= STAGES; // the last of the unseen tiles waits for this one's stage
            if (early) {
                wgmma_wait<0>();
                release_share(empty);
            }
            skip_unseen();
            if (more)
                await_queries();
            issue_scores(keys(more ? 0 : -1));
            end_turn();
            wgmma_wait<1>(); // O is there, S is not
            wgmma_settle(o);
            if (!early)
                release_share(empty);
            finish(tile, stage, rows);
        }
        wgmma_wait<0>();
    }
    //$ else
    __device__ __forceinline__ void run() {
        while (take_and_skip()) {
            await_queries();
            issue_scores(keys(0));
            end_turn();
            go_over_keys();
            issue_output();
            wgmma_wait<0>();
            output_done(values());
            finish(span.tile, queries.stage(), rows);
            step++, queries.count++;
        }
    }
    //$ end
    //$ else
    // Rounds of: S, softmax, O += P V, one after the other.
    __device__ __forceinline__ void run() {
        while (take_and_skip()) {
            await_queries();
            begin_rows();
            begin_output();
#pragma unroll 1
            for (bool first = true; span.left() > 0; first = false, step++) {
                issue_scores(keys(0));
                prepare();
                wgmma_wait<0>();
                scores_done(keys(0), span.left() == 0);
                end_turn();
                weigh_tile(first);
                rescale(o, rows);
                keep_weights();
                issue_output();
                wgmma_wait<0>();
                output_done(values());
            }
            finish(span.tile, queries.stage(), rows);
            queries.count++;
        }
    }
    //$ end
};
