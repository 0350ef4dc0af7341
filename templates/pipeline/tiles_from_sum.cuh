//$ needs row_tiles block_n split_n overlap mask folded chunks chunks_v bias_stages
//$ include "pipeline/softmax_of_units.cuh"
//$ include "fragment/sums_in_range.cuh"

// How a warp processes a K/V tile. It keeps m; the row sums show whether P has outgrown it, so exponentials do not wait for a maximum.
// The exponentials of the second half of the tile are computed during O += P V of the first. //$ if overlap != off
// Where P has outgrown m, S is recomputed, and m follows its maxima.

// What a warp knows about m from tile to tile. Positive: P may be relative to the current m. The absolute value is how often m may
// still be outgrown: at 0 it follows the maxima, since scores that outgrow it often will do so again.
using State = int;
constexpr State BEFORE_TILES = -3;

// Positive if m is known, and not so far from 0 that its rounding would change P.
__device__ __forceinline__ State state_of(const UnitRows (&units)[ROW_TILES], int raises_left) {
    float most = 0;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        most = fmaxf(most, fmaxf(fabsf(units[r].rows.max[0]), fabsf(units[r].rows.max[1])));
    return __all_sync(0xffffffffu, most * units[0].c <= 4096) ? raises_left : -raises_left;
}

// True if m stays for this tile, unless the row sums say otherwise.
__device__ __forceinline__ bool keeps_max(const UnitRows (&units)[ROW_TILES], State state) {
    bool keeps = state > 0;
    //$ if mask != none
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        keeps = keeps && units[r].walk.whole;
    //$ end
    return keeps;
}

//$ if folded

// Sets what the scores of the tile are computed relative to: m or, before m follows them, a value close to them.
__device__ __forceinline__ void set_rests_of_units(UnitRows (&units)[ROW_TILES], bool follows) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        set_rests(units[r].score.rest, units[r].unit, units[r].next, units[r].rows, follows);
}
//$ end

// S of KEYS keys of the tile, from FIRST on.
template <int FIRST, int KEYS> __device__ __forceinline__ float (&scores_of(UnitRows &rows))[KEYS / 2] {
    return reinterpret_cast<float(&)[KEYS / 2]>(rows.s[FIRST / 2]);
}

// S -> P of these keys, relative to the current m, and this thread's share of the row sums. Like exp2_scores with an m that is known and
// not far from 0, but the sums come after all exponentials, since d 128 spills otherwise.
template <int FIRST, int KEYS> __device__ __forceinline__ void weigh(UnitRows (&units)[ROW_TILES]) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float(&s)[KEYS / 2] = scores_of<FIRST, KEYS>(units[r]);
        //$ if folded
        apply_score<FIRST>(s, units[r].score);
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            s[i] = exp2_approx(s[i]);
        //$ else
        apply_score<FIRST>(s, units[r].score, units[r].unit, units[r].next, units[r].shared); //$ if bias_stages > 0
        const float c = units[r].c, shift[2] = {-units[r].rows.max[0] * c, -units[r].rows.max[1] * c};
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            s[i] = exp2_approx(fmaf(s[i], c, shift[i / 2 % 2]));
        //$ end
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float even = s[2 * row], odd = s[2 * row + 1];
#pragma unroll
            for (int i = 4 + 2 * row; i < KEYS / 2; i += 4)
                even += s[i], odd += s[i + 1];
            units[r].tile_sum[row] = even + odd;
        }
    }
}

// True if P of these keys has outgrown m.
__device__ __forceinline__ bool outgrown(const UnitRows (&units)[ROW_TILES]) {
    float most = 0;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        most = fmaxf(most, fmaxf(units[r].tile_sum[0], units[r].tile_sum[1]));
    return !__all_sync(0xffffffffu, most <= USUAL_SUM);
}

// S -> P of these keys, relative to an m that follows their maxima. O already contains the earlier keys of the tile.
template <int FIRST, int KEYS> __device__ __forceinline__ void weigh_by_max(UnitRows (&units)[ROW_TILES]) {
    set_rests_of_units(units, true); //$ if folded
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float(&s)[KEYS / 2] = scores_of<FIRST, KEYS>(units[r]);
        begin_rescaling(units[r].rows, units[r].c);
        //$ if folded
        apply_score<FIRST>(s, units[r].score);
        follow_max(s, units[r].rows, units[r].unit, units[r].next, 0);
        exp2_scores(s, units[r].tile_sum);
        //$ else
        apply_score<FIRST>(s, units[r].score, units[r].unit, units[r].next, units[r].shared); //$ if bias_stages > 0
        follow_max(s, units[r].rows, units[r].c, 0);
        exp2_scores(s, units[r].rows, units[r].c, units[r].rows.far, units[r].tile_sum);
        //$ end
        rescale(units[r].o, units[r].rows);
    }
}

// Adds the row sums of these keys to l, and packs their P as operands.
template <int FIRST, int KEYS>
__device__ __forceinline__ void take_weights(UnitRows (&units)[ROW_TILES], Weights (&p)[ROW_TILES]) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
#pragma unroll
        for (int row = 0; row < 2; row++)
            units[r].rows.sum[row] += units[r].tile_sum[row];
        keep_weights<FIRST, KEYS>(units[r].s, p[r]);
    }
}

// Completes P, and computes O += P V.
__device__ __forceinline__ void end_tile(UnitRows (&units)[ROW_TILES], const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k,
                                         const Rows16<BLOCK_N, CHUNKS_V> &v, State &state) {
    const unsigned thread = thread_of_round();
    Weights p[ROW_TILES];
    bool keeps = keeps_max(units, state);
    if (keeps && outgrown(units)) {
        repeat_scores<0, SPLIT_N>(units, q, k);
        keeps = false;
        state = 1 - state; // as if m were not known, with one raise less
    }
    if (keeps) {
        take_weights<0, SPLIT_N>(units, p);
        weigh<SPLIT_N, BLOCK_N - SPLIT_N>(units); //$ if overlap != off
        multiply_output<0, SPLIT_N>(units, p, v, thread);
        //$ if overlap != off
        if (outgrown(units)) {
            repeat_scores<SPLIT_N, BLOCK_N - SPLIT_N>(units, q, k);
            weigh_by_max<SPLIT_N, BLOCK_N - SPLIT_N>(units);
            state = state_of(units, state - 1);
        }
        take_weights<SPLIT_N, BLOCK_N - SPLIT_N>(units, p);
        multiply_output<SPLIT_N, BLOCK_N - SPLIT_N>(units, p, v, thread);
        //$ end
    } else {
        set_rests_of_units(units, true); //$ if folded
        softmax_units(units, p, true);
        multiply_output<0, BLOCK_N>(units, p, v, thread);
        state = state_of(units, state < 0 ? -state : state);
    }
}
