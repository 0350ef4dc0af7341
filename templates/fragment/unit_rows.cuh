//$ needs algorithm columns_v mask score sinks dropout batch_invariant split_keys block_n rescale
//$ needs mask_tiles bias_stages plain_scores folded bfloat16

// A unit of a Q tile, as a warpgroup holds it in registers: S of a K/V tile, O, and the softmax state. The kernel decides when
// S and O are multiplied.
struct UnitRows {
    const attention_params &p;
    Shared &shared;
    Unit unit; // of the Q tile
    float c;   // factor from s to exponents of 2: log2(e), times |scale| unless the score expression has applied scale
    KeyWalk walk; // over the K/V tiles of this unit
    int next;     // the K/V tile whose softmax is next
    //$ if mask_tiles == bitmap
    Seen seen; // mask bits of the next tile, unless all of it is seen
    //$ end
    //$ if rescale == from_sum and algorithm == flash_async
    int raises;     // a count of recent raises of m: each adds 4, and each K/V tile since the last one takes 1 away, down to 0
    //$ if dropout == 0
    int raise_step; // of the last one
    //$ end
    bool unsure; // P of this tile is of an m that may be too small
    //$ end
    //$ if rescale == from_sum
    float tile_sum[2]; // this thread's share of the row sums of that P
    //$ end
    //$ if rescale != always and not plain_scores
    bool search; // compute the maximum of the next tile
    //$ end
    //$ if folded or bias_stages > 0
    Score score;
    //$ end
    Rows rows;
    float s[BLOCK_N / 2], o[COLUMNS_V / 2];

    __device__ __forceinline__ UnitRows(const attention_params &p, Shared &shared, int index)
        : p(p), shared(shared), unit{p, index, static_cast<int>(threadIdx.x % 32)},
          //$ if score == custom_score
          c(LOG2_E) {
        //$ else
          c(fmaxf(fabsf(p.scale), 0x1p-120f) * LOG2_E) { // not 0: 0 * -INFINITY is NaN
        //$ end
        //$ if rescale == from_sum and algorithm == flash_async
        raises = 0;
        //$ if dropout == 0
        raise_step = 0;
        //$ end
        //$ end
    }
    //$ if rescale == from_sum and algorithm == flash_async

    // Compute the maximum of every tile from now on? That takes a quarter of the time of raising m afterwards, so it pays once scores
    // outgrow m in more than a quarter of the tiles.
    static constexpr int MANY_RAISES = 12;
    __device__ __forceinline__ bool follows() const { return raises >= MANY_RAISES; }
    //$ if dropout == 0
    __device__ __forceinline__ void count_raise(int step) {
        raises = max(0, raises - (step - raise_step)) + 4;
        raise_step = step;
    }
    //$ end
    //$ end

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
        set_rests(search || follows());
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
        //$ if mask == none and split_keys > 0 and rescale == from_sum and algorithm == flash_mma
        return first && next >= p.len_kv / BLOCK_N; // as !walk.whole, with a register less
        //$ elif mask == none
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

    // S -> P. Each update of m rescales O, so m is updated only when it has grown by more than 2^SLACK (`search`: always). Until
    // then P is at most 2^SLACK too large, and so is l, which divides it out.
    //$ if rescale == from_sum and bfloat16
    static constexpr float SLACK = 16;
    //$ else
    static constexpr float SLACK = 8;
    //$ end
    template <bool FOLLOW>
    __device__ __forceinline__ void online_softmax(bool masked, bool first, bool search, float (&sum)[2]) {
        const float slack = search ? 0 : SLACK;
        rows.grown = false;
        //$ if folded
        apply_score(s, score);
        //$ elif bias_stages > 0
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
        exp2_scores(s, sum);
        //$ else
        if (FOLLOW || first) //$ if plain_scores and mask == none and rescale == from_sum
        if (FOLLOW) //$ if not (plain_scores and mask == none and rescale == from_sum)
            follow_max(s, rows, c, slack);
        exp2_scores(s, rows, c, (FOLLOW || first) && rows.far, sum);
        //$ end
        //$ if dropout == 1
        drop_weights(s, unit, next * BLOCK_N); // not from the row sums
        //$ end
    }

    __device__ __forceinline__ void begin_rows() {
        //$ if folded
        begin_score(score, p, unit.where);
        //$ end
        rows = no_rows();
        //$ if rescale == from_sum and algorithm == flash_async and batch_invariant == 1
        raises = 0; // else the tiles of other sequences before this one would change its bits
        //$ end
        //$ if sinks > 0 and split_keys > 0
        if (unit.tile.split == 0) // it enters l once
            begin_with_sink(rows, sink_of(p, unit.tile.head), unit.lane % 4 == 0, c);
        //$ elif sinks > 0
        begin_with_sink(rows, sink_of(p, unit.tile.head), unit.lane % 4 == 0, c);
        //$ end
    }
    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &value : o)
            value = 0;
    }
};
