//$ include "part/async_products.cuh"
//$ if rescale == from_sum
//$ include "part/scores_again.cuh"
//$ end
//$ if mask != none
//$ include "part/repeat_rows.cuh"
//$ end

// The consumers: warpgroups that multiply and weigh. One Consumer is what one of them does.

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
    bool whole; // all rows of the unit see all of it
    //$ if mask == custom_mask and not intervals
    Seen seen; // of the next tile, unless all is
    //$ end
    //$ if mask == custom_mask or score == custom_score
    Where where;
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
    float c;         // what makes exponents of 2 of what is in s: log2(e), times |scale| where no expression has done so
    unsigned long long q, k, v;

    Ring<Q_STAGES> queries;
    int step; // tiles of keys that went through this warpgroup
    Span span;
    //$ if ahead > 0
    Ring<AHEAD_STAGES> ahead; // tiles that were scored, or went by
    //$ end
    //$ if rescale == from_sum
    bool follow; // m follows the maximum, since scores have outgrown one that did not
    //$ end
    //$ if rescale != always and not plain_scores
    bool search; // the next tile for a maximum
    //$ end
    //$ if folded > 0
    Fold fold;
    float rest[2]; // of its scores, at this thread's first key, less what they are taken less
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
          c(LOG2_E),
          //$ else
          c(fmaxf(fabsf(a.scale), 0x1p-120f) * LOG2_E), // not 0, times which -INFINITY would be NaN
          //$ end
          q(matrix_descriptor(shared.q[0][index], 0)), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0), span{} {
        //$ if rescale == from_sum
        follow = false;
        //$ end
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
            release_keys(&shared.k_empty[keys(0).stage()]);
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

    //$ if score != custom_score
    // scale Q K^T = |scale| (-Q) K^T: so the largest score is that of the largest product whatever the sign of scale is.
    __device__ __forceinline__ void negate_queries() {
        unsigned *pairs = reinterpret_cast<unsigned *>(shared.q[queries.stage()][index]);
#pragma unroll 4
        for (int i = threadIdx.x % 128; i < PANELS * 64 * 32; i += 128)
            pairs[i] ^= 0x80008000;
        fence_async();
        named_barrier_sync(4 + index, 128);
    }

    //$ end
    __device__ __forceinline__ void await_queries() {
        barrier_wait(&shared.q_full[queries.stage()][index], queries.parity());
        //$ if score != custom_score
        if (a.scale < 0)
            negate_queries();
        //$ end
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

    // S of this tile of keys is not multiplied again; after the last one nor is any of these queries'.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at) {
        release_keys(&shared.k_empty[at.stage()]);
        //$ if store == direct and queries_in == q_shared and rescale == from_sum
        if (span.left() == 0)
            release_by_warp(&shared.q_empty[queries.stage()][index]);
        //$ elif store == direct and queries_in == q_shared
        if (span.left() == 0)
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
        //$ if rescale != always and not plain_scores
        search = lacks_max(rows);
        //$ end
        //$ if folded > 0 and rescale == from_sum
        take_rest(search || follow);
        //$ elif folded > 0
        take_rest(true);
        //$ end
    }
    //$ if folded > 0
    // Scores are taken less m, or less something close to them while m is searched.
    __device__ __forceinline__ void take_rest(bool search) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int q = position(row() + 8 * r);
            float from = search ? first_rest(a, span.where, q, span.next * BLOCK_N) : rows.max[r];
            rest[r] = rest_at(a, span.where, fold, q, span.next * BLOCK_N + lane % 4 * 2, from);
        }
    }
    //$ end

//$ if score == custom_score
//$ include "part/async_scores.cuh"
//$ end

//$ include "part/async_masks.cuh"

    // S of the tile that is prepared -> weights. `first`: of its rows.
    __device__ __forceinline__ void weigh_tile(bool first) {
        wgmma_settle(s);
        float sum[2];
        //$ if rescale == always
        const bool search = true;
        //$ elif plain_scores and rescale == from_sum
        const bool search = is_masked(first) || follow && lacks_max(rows); // where rows may not have an m yet
        //$ elif plain_scores
        const bool search = is_masked(first) || lacks_max(rows);
        //$ end
        //$ if rescale == from_sum
        // As long as m stays as it is, the sum shows whether it will do. If not, S is multiplied once more, and from then on m
        // follows the maximum. Each way has code of its own, or ptxas would not overlap what the usual one does.
        const bool usual = !search && !follow;
        //$ if plain_scores
        const bool masked = false; // then
        //$ else
        const bool masked = is_masked(first);
        //$ end
        if (usual)
            weigh_scores<false>(masked, first, false, sum);
        else
            weigh_scores<true>(is_masked(first), first, search, sum);
        if (usual && !within_range(rows, sum)) {
            //$ if q_gone
            multiply_scores_again(s, fragments, shared.k[keys(0).stage()]);
            //$ else
            multiply_scores_again(s, shared.q[queries.stage()][index], shared.k[keys(0).stage()]);
            //$ end
            follow = true;
            //$ if folded > 0
            take_rest(true);
            //$ end
            weigh_scores<true>(masked, first, true, sum);
        }
        scores_done(keys(0));
        //$ else
        scores_done(keys(0));
        weigh_scores<true>(is_masked(first), first, search, sum);
        //$ end
        //$ if ahead > 0
        score_done();
        //$ end
        rows.sum[0] += sum[0];
        rows.sum[1] += sum[1];
    }
    // m follows the maximum, and O has to follow it, too: so only when m has grown by more than 2^8, unless it is searched for.
    // Until then weights are at most 2^8 too large, which l divides out again.
    template <bool FOLLOW>
    __device__ __forceinline__ void weigh_scores(bool masked, bool first, bool search, float (&sum)[2]) {
        const float slack = search ? 0 : 8;
        rows.grown = false;
        //$ if score == custom_score
        score_tile(span.next);
        //$ end
        if (masked)
            mask_scores();
        //$ if folded > 0
        if (FOLLOW) {
            const int first_row = row(), key = span.next * BLOCK_N;
            follow_max(s, rows, {first_rest(a, span.where, position(first_row), key),
                                 first_rest(a, span.where, position(first_row + 8), key)}, slack);
        }
        weigh_exponents(s, sum);
        //$ else
        //$ if plain_scores and mask == none and rescale == from_sum
        if (FOLLOW || first)
            follow_max<4>(s, rows, c, FOLLOW, slack); // if no row ends in the first tile, a guess at m will do
        //$ else
        if (FOLLOW)
            follow_max<1>(s, rows, c, true, slack);
        //$ end
        weigh(s, rows, c, sum);
        //$ end
    }
    // Does this warp have keys that some row does not see?
    __device__ __forceinline__ bool is_masked(bool first) const {
        //$ if mask == none
        return first && !span.whole;
        //$ else
        return !span.whole;
        //$ end
    }

    __device__ __forceinline__ void begin_rows() {
        //$ if folded > 0
        fold = fold_score(a, span.where);
        //$ end
        rows = no_rows();
        //$ if sinks > 0
        begin_with_sink(rows, sink_of(a, span.tile), lane % 4 == 0, c);
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
        weigh_tile(true);
        keep_weights();
        begin_output();
#pragma unroll 1
        while (span.left() > 0) {
            issue_round();
            prepare();
            wgmma_wait<1>(); // S is there, O is not
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
