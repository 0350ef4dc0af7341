//$ needs algorithm columns_v mask sinks dropout batch_invariant layout split_keys block_n rescale score
//$ needs mask_tiles bias_stages plain_scores folded bfloat16
//$ include "fragment/softmax_rows.cuh"
//$ let slack = 16 if rescale == from_sum and bfloat16 else 8
//$ let counts_raises = rescale == from_sum and algorithm == flash_async
//$ let whole_by_number = mask == none and split_keys > 0 and rescale == from_sum and algorithm == flash_mma
//$ include "fragment/raises.cuh" if counts_raises

// A unit of a Q tile, as a warpgroup holds it in registers: S of a K/V tile, O, and the softmax state. The kernel decides when
// S and O are computed.
struct UnitRows {
    const attention_params &p;
    Shared &shared;
    Unit unit;    // of the Q tile
    float c;      // factor from s to exponents of 2
    KeyWalk walk; // over the K/V tiles of this unit
    int next;     // the K/V tile whose softmax is next
    Seen seen;    // mask bits of the next tile, unless all of it is seen         //$ if mask_tiles == bitmap
    bool search;  // compute the maximum of the next tile                         //$ if rescale != always and not plain_scores
    Raises raises;     // of m                                                    //$ if counts_raises
    bool unsure;       // P of this tile uses an m that may be too small          //$ if counts_raises
    float tile_sum[2]; // this thread's share of the row sums of P of this tile   //$ if rescale == from_sum
    Score score;       // what its expression needs                               //$ if folded or bias_stages > 0
    Rows rows;
    float s[BLOCK_N / 2], o[COLUMNS_V / 2];

    __device__ __forceinline__ UnitRows(const attention_params &p, Shared &shared, int index)
        : p(p), shared(shared), unit{p, index, static_cast<int>(threadIdx.x % 32)}, c(exponent_factor(p)) {}

    // Prepares a K/V tile while its S is being computed.
    __device__ __forceinline__ void prepare() {
        next = next_keys(p, unit.tile, unit.index, walk);
        //$ if mask_tiles == bitmap and algorithm == flash_async
        if (!walk.whole)
            set_seen<1>({&unit}, next, {&seen});
        //$ end
        search = lacks_max(rows); //$ if rescale != always and not plain_scores
        set_rests(score.rest, unit, next, rows, search || raises.are_many()); //$ if folded and counts_raises
        set_rests(score.rest, unit, next, rows, true);                        //$ elif folded and rescale != from_sum
    }

    // True if some key of the tile is masked for some row of this warp.
    __device__ __forceinline__ bool is_masked(bool first) const {
        return first && next >= p.len_kv / BLOCK_N; // as !walk.whole, with a register less //$ if whole_by_number
        return first && !walk.whole;                                                        //$ elif mask == none
        return !walk.whole;                                                                 //$ else
    }

    // S -> P. Each update of m rescales O, so m is updated only when it has grown by more than 2^SLACK (`search`: always). Until
    // then P is at most 2^SLACK too large, and so is l, which divides it out.
    template <bool FOLLOW>
    __device__ __forceinline__ void online_softmax(bool masked, bool first, bool search, float (&sum)[2]) {
        const float slack = search ? 0 : SLACK;
        rows.grown = false;
        apply_score(s, score);                     //$ if folded
        apply_score(s, score, unit, next, shared); //$ elif bias_stages > 0
        apply_score(s, unit, next);                //$ elif score == custom_score
        if (masked)
            mask_tile(s, seen);                //$ if mask_tiles == bitmap
            mask_tile(s, seen_of(unit, next)); //$ else
        if (FOLLOW || first) //$ if plain_scores and mask == none and rescale == from_sum
        if (FOLLOW)          //$ else
            follow_max(s, rows, unit, next, slack); //$ if folded
            follow_max(s, rows, c, slack);          //$ else
        exp2_scores(s, sum);                                         //$ if folded
        exp2_scores(s, rows, c, (FOLLOW || first) && rows.far, sum); //$ else
        drop_weights(s, unit, next * BLOCK_N); // not from the row sums //$ if dropout == 1
    }

    __device__ __forceinline__ void begin_rows() {
        begin_score(score, p, unit.where); //$ if folded
        rows = no_rows();
        raises.count = 0; // else the tiles of other sequences before this one would change its bits //$ if counts_raises and (batch_invariant == 1 or layout != dense)
        begin_with_sink(rows, unit, c); //$ if sinks > 0
    }
    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &value : o)
            value = 0;
    }
};
