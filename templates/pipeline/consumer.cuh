//$ needs head_dim_v mask score sinks block_n stages rescale store p_in q_in mask_tiles score_bias
//$ needs plain_scores folded in_turns panels k_bytes v_bytes q_stages k_stages units_apart

// What one warpgroup of consumers does, with everything that it holds in registers: S, O, P and Q as 16-bit pairs where they
// are not in shared memory, and about 32 a thread besides, which the template's last requirement counts.
struct Consumer {
    const attention_params &p;
    Shared &shared;
    int index;  // of the consumers of this block
    Unit unit;  // of the tile of queries
    float c;    // what makes exponents of 2 of what is in s: log2(e), times |scale| where no expression has done so
    unsigned long long k, v; // descriptors of their first stages

    Ring<Q_STAGES> queries;
    int step; // tiles of keys that went through this warpgroup
    //$ if units_apart
    int unseen; // tiles of keys to go by, which only other units see
    //$ end
    KeyWalk walk; // over those that this one sees
    int next;     // tile of keys that is weighed next
    //$ if mask_tiles == bitmap
    Seen seen; // of the next tile, unless all is
    //$ end
    //$ if rescale == from_sum
    bool follow; // m follows the maximum, since scores have outgrown one that did not
    //$ end
    //$ if rescale != always and not plain_scores
    bool search; // the next tile for a maximum
    //$ end
    //$ if folded or score_bias == bias_rows
    Score score;
    //$ end
    Rows rows;
    float s[BLOCK_N / 2], o[HEAD_DIM_V / 2];
    Weights weights;
    Queries q;

    __device__ __forceinline__ Consumer(const attention_params &p, Shared &shared, int index)
        : p(p), shared(shared), index(index), unit{p, unit_of(index), static_cast<int>(threadIdx.x % 32)},
          //$ if score == custom_score
          c(LOG2_E),
          //$ else
          c(fmaxf(fabsf(p.scale), 0x1p-120f) * LOG2_E), // not 0, times which -INFINITY would be NaN
          //$ end
          k(matrix_descriptor(shared.k[0], 0)), v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0) {
        //$ if q_in == q_shared
        q.first = matrix_descriptor(shared.q[0][index], 0);
        //$ end
        //$ if p_in == p_shared
        weights = {&shared.p[index], index};
        //$ end
        //$ if rescale == from_sum
        follow = false;
        //$ end
        //$ if score_bias == bias_rows
        score = {index, {0}};
        //$ end
    }

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values(int ahead = 0) const { return {step + ahead}; }

    // The next tile of queries. False when there is none.
    __device__ __forceinline__ bool take() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        //$ if units_apart and mask_tiles != builtin
        unseen = queries.count > 0 ? tiles_after(p, unit.tile, unit.index, walk) : 0; // of the tile before
        //$ end
        unit.tile = tile;
        //$ if mask == custom_mask or score == custom_score
        unit.where = {tile.batch, tile.head, tile.kv_head};
        //$ end
        //$ if mask_tiles == builtin
        walk = walk_of_unit(p, tile, unit.index);
        //$ if units_apart
        unseen = walk.unseen;
        //$ end
        //$ else
        if (tile.query >= 0) {
            walk = walk_of_unit(p, tile, unit.index);
            //$ if units_apart
            unseen += walk.unseen;
            //$ end
        }
        //$ end
        return tile.query >= 0;
    }
    //$ if units_apart

    // Bytes of unseen tiles are waited for, or a stage could be given back a round early.
    __device__ __forceinline__ void skip_unseen() {
        for (; unseen > 0; unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            //$ if score_bias == bias_rows
            if (await_bias(score, p, shared))
                bias_done(score, p, shared);
            //$ end
            named_barrier_sync(4 + index, 128); // or a warp that is late would not see the phase it waits for
            release_k(&shared.k_empty[keys(0).stage()]);
            release_keys(&shared.v_empty[values().stage()]);
        }
    }
    //$ end

    // The next tile of queries, behind tiles of keys that are not for this warpgroup. False when there is none.
    __device__ __forceinline__ bool take_and_skip() {
        bool more = take();
        //$ if units_apart
        skip_unseen();
        //$ end
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
        multiply_scores(s, q, queries.stage(), k + at.stage() * (K_BYTES / 16));
        wgmma_commit();
    }
    __device__ __forceinline__ void issue_output() {
        barrier_wait(&shared.v_full[values().stage()], values().parity());
        wgmma_fence();
        multiply_output(o, weights, v + values().stage() * (V_BYTES / 16));
        wgmma_commit();
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
        if (p.scale < 0)
            negate_queries();
        //$ end
        //$ if q_in == q_registers
        load_queries(q, shared.q[queries.stage()][index]);
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
        release_k(&shared.k_empty[at.stage()]);
        //$ if store == direct and q_in == q_shared
        if (walk.left == 0)
            release_q(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_keys(&shared.v_empty[at.stage()]);
    }

    // What is known of a tile of keys before its scores are there.
    __device__ __forceinline__ void prepare() {
        next = next_keys(p, unit.tile, unit.index, walk);
        //$ if mask_tiles == bitmap
        if (!walk.whole)
            seen = seen_of(unit, next);
        //$ end
        //$ if rescale != always and not plain_scores
        search = lacks_max(rows);
        //$ end
        //$ if folded and rescale == from_sum
        set_rests(search || follow);
        //$ elif folded
        set_rests(true);
        //$ end
    }
    //$ if folded
    // Scores are taken less m, or less something close to them while m is searched.
    __device__ __forceinline__ void set_rests(bool search) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = unit.position(unit.row() + 8 * r);
            float from = search ? first_rest(p, unit.where, query, next * BLOCK_N) : rows.max[r];
            set_rest(score.rest, r, p, unit.where, query, next * BLOCK_N + unit.lane % 4 * 2, from);
        }
    }
    //$ end

    // Does this warp have keys that some row does not see?
    __device__ __forceinline__ bool is_masked(bool first) const {
        //$ if mask == none
        return first && !walk.whole;
        //$ else
        return !walk.whole;
        //$ end
    }
    // s = -INFINITY where the mask says so.
    __device__ __forceinline__ void mask_scores() {
        //$ if mask_tiles == bitmap
        mask_tile(s, seen);
        //$ else
        mask_tile(s, seen_of(unit, next));
        //$ end
    }

    // m follows the maximum, and O has to follow it, too: so only when m has grown by more than 2^8, unless it is searched for.
    // Until then weights are at most 2^8 too large, which l divides out again.
    template <bool FOLLOW>
    __device__ __forceinline__ void weigh_scores(bool masked, bool first, bool search, float (&sum)[2]) {
        const float slack = search ? 0 : 8;
        rows.grown = false;
        //$ if folded
        apply_score(s, score);
        //$ elif score_bias == bias_rows
        apply_score(s, score, unit, next, shared);
        //$ elif score == custom_score
        apply_score(s, unit, next);
        //$ end
        if (masked)
            mask_scores();
        //$ if folded
        if (FOLLOW) {
            const int first_row = unit.row(), key = next * BLOCK_N;
            follow_max(s, rows, {first_rest(p, unit.where, unit.position(first_row), key),
                                 first_rest(p, unit.where, unit.position(first_row + 8), key)}, slack);
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

    __device__ __forceinline__ void begin_rows() {
        //$ if folded
        begin_score(score, p, unit.where);
        //$ end
        rows = no_rows();
        //$ if sinks > 0
        begin_with_sink(rows, sink_of(p, unit.tile.head), unit.lane % 4 == 0, c);
        //$ end
    }
    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &value : o)
            value = 0;
    }
};
