//$ needs head_dim_v mask score sinks block_n stages rescale store p_in q_in mask_tiles score_bias
//$ needs plain_scores folded in_turns panels k_bytes v_bytes q_stages k_stages units_apart

// One consumer warpgroup and everything that it holds in registers: S, O, P and Q as 16-bit pairs where they are not in shared
// memory, and about 32 more registers a thread, which the last requirement of the template counts.
struct Consumer {
    const attention_params &p;
    Shared &shared;
    int index;  // of this consumer in its block
    Unit unit;  // of the Q tile
    float c;    // factor from s to exponents of 2: log2(e), times |scale| unless the score expression has applied scale
    unsigned long long k, v; // matrix descriptors of stage 0

    Ring<Q_STAGES> queries;
    int step; // K/V tiles that this warpgroup has processed
    //$ if units_apart
    int unseen; // K/V tiles to skip: only other units of the Q tile need them
    //$ end
    KeyWalk walk; // over the K/V tiles of this unit
    int next;     // the K/V tile whose softmax is next
    //$ if mask_tiles == bitmap
    Seen seen; // mask bits of the next tile, unless all of it is seen
    //$ end
    //$ if rescale == from_sum
    bool follow; // compute maxima from now on: scores have outgrown a fixed m
    bool unsure; // P of this tile is of an m that may be too small
    float tile_sum[2]; // this thread's share of the row sums of that P
    //$ end
    //$ if rescale != always and not plain_scores
    bool search; // compute the maximum of the next tile
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
          c(fmaxf(fabsf(p.scale), 0x1p-120f) * LOG2_E), // not 0: 0 * -INFINITY is NaN
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

    // Take the next Q tile. False when there is none.
    __device__ __forceinline__ bool take() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        //$ if units_apart and mask_tiles != builtin
        unseen = queries.count > 0 ? tiles_after(p, unit.tile, unit.index, walk) : 0; // of the previous Q tile
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

    // Wait for the bytes of skipped tiles, too: else a stage could be released one phase early.
    __device__ __forceinline__ void skip_unseen() {
        for (; unseen > 0; unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            //$ if score_bias == bias_rows
            if (await_bias(score, p, shared))
                bias_done(score, p, shared);
            //$ end
            named_barrier_sync(4 + index, 128); // else a late warp could miss the phase that it waits for
            release_keys(&shared.k_empty[keys(0).stage()]);
            release_keys(&shared.v_empty[values().stage()]);
        }
    }
    //$ end

    // Take the next Q tile and skip leading K/V tiles that this warpgroup does not need. False when there is none.
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

    // For scale < 0, scale Q K^T = |scale| (-Q) K^T: so the largest score is always that of the largest product.
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

    // S of this K/V tile is final: release K, and after the last tile Q.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at) {
        release_keys(&shared.k_empty[at.stage()]);
        //$ if store == direct and q_in == q_shared
        if (walk.left == 0)
            release(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_keys(&shared.v_empty[at.stage()]);
    }

    // Prepare a K/V tile while its S is being computed.
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
    // Scores are computed minus m, or minus a value close to them while m is not known.
    __device__ __forceinline__ void set_rests(bool search) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = unit.position(unit.row() + 8 * r);
            float from = search ? first_rest(p, unit.where, query, next * BLOCK_N) : rows.max[r];
            set_rest(score.rest, r, p, unit.where, query, next * BLOCK_N + unit.lane % 4 * 2, from);
        }
    }
    //$ end

    // Is some key of the tile masked for some row of this warp?
    __device__ __forceinline__ bool is_masked(bool first) const {
        //$ if mask == none
        return first && !walk.whole;
        //$ else
        return !walk.whole;
        //$ end
    }
    // s = -INFINITY where the mask is false.
    __device__ __forceinline__ void mask_scores() {
        //$ if mask_tiles == bitmap
        mask_tile(s, seen);
        //$ else
        mask_tile(s, seen_of(unit, next));
        //$ end
    }

    // S -> P. Each update of m rescales O, so m is updated only when it has grown by more than 2^8 (`search`: always). Until
    // then P is at most 2^8 too large, and so is l, which divides it out.
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
            follow_max<4>(s, rows, c, FOLLOW, slack); // where every row sees the whole first tile, an estimate of m suffices
        //$ else
        if (FOLLOW)
            follow_max<1>(s, rows, c, true, slack);
        //$ end
        weigh(s, rows, c, (FOLLOW || first) && rows.far, sum);
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
