//$ needs row_tiles block_n split_n overlap mask chunks chunks_v bfloat16
//$ include "pipeline/softmax_of_units.cuh"
//$ include "fragment/scores_from_memory.cuh"

// What a warp does with a K/V tile. m stays as it is, and row sums show whether P has outgrown it: exponentials wait for no maximum.
//$ if overlap == halves
// Those of the first half of the tile are computed while S of the second half is multiplied, and those of the second half during
// O += P V of the first.
//$ elif overlap == output
// Those of the second half of the tile are computed during O += P V of the first.
//$ end

// What a warp knows of m from tile to tile. Positive: P may be relative to m as it is. The amount is how often m may still be
// outgrown: at 0 it follows the maxima, since scores that outgrow it often will do so again.
using State = int;
constexpr State BEFORE_TILES = -3;

// m is known, and not so far from 0 that its rounding would change P?
__device__ __forceinline__ State state_of(const UnitRows (&units)[ROW_TILES], int raises_left) {
    float most = 0;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        most = fmaxf(most, fmaxf(fabsf(units[r].rows.max[0]), fabsf(units[r].rows.max[1])));
    return __all_sync(0xffffffffu, most * units[0].c <= 4096) ? raises_left : -raises_left;
}

// Does m stay for this tile, unless sums say otherwise?
__device__ __forceinline__ bool keeps_max(const UnitRows (&units)[ROW_TILES], State state) {
    bool keeps = state > 0;
    //$ if mask != none
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        keeps = keeps && units[r].walk.whole;
    //$ end
    return keeps;
}

// S of KEYS keys of the tile, from FIRST on.
template <int FIRST, int KEYS> __device__ __forceinline__ float (&scores_of(UnitRows &rows))[KEYS / 2] {
    return reinterpret_cast<float(&)[KEYS / 2]>(rows.s[FIRST / 2]);
}

// S -> P of these keys, relative to m as it is, and this thread's share of the row sums.
template <int FIRST, int KEYS> __device__ __forceinline__ void weigh(UnitRows (&units)[ROW_TILES]) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float(&s)[KEYS / 2] = scores_of<FIRST, KEYS>(units[r]);
        const float c = units[r].c, shift[2] = {-units[r].rows.max[0] * c, -units[r].rows.max[1] * c};
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            s[i] = exp2_approx(fmaf(s[i], c, shift[i / 2 % 2]));
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

// P of these keys as operands.
template <int FIRST, int KEYS>
__device__ __forceinline__ void pack_weights(const UnitRows (&units)[ROW_TILES], Weights (&p)[ROW_TILES]) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = FIRST / 4; i < (FIRST + KEYS) / 4; i++)
            p[r].pairs[i / 4][i % 4] = pack<BFLOAT16>(units[r].s[2 * i], units[r].s[2 * i + 1]);
}

// P of these keys relative to a larger m. Where P has left the range of fp32, or was relative to an m that is not settled, S is
// computed again; then m follows the maxima.
template <int FIRST, int KEYS> __device__ __forceinline__ void raise_max_of_unit(UnitRows &rows, State &state) {
    float(&s)[KEYS / 2] = scores_of<FIRST, KEYS>(rows);
    begin_rescaling(rows.rows, rows.c);
    if (state > 0 && within_range(rows.rows, rows.tile_sum, MOST_SUM)) {
        raise_max_to_weights(s, rows.rows, rows.tile_sum, rows.c);
    } else {
        scores_from_memory<KEYS>(s, rows.unit, rows.next * BLOCK_N + FIRST);
        follow_max(s, rows.rows, rows.c, 0);
        exp2_scores(s, rows.rows, rows.c, rows.rows.far, rows.tile_sum);
        state = 0;
    }
    rescale(rows.o, rows.rows);
}

// Adds the row sums of these keys to l. Where they show that P has outgrown m, raises m first.
template <int FIRST, int KEYS> __device__ __forceinline__ void accumulate_row_sums(UnitRows (&units)[ROW_TILES], State &state) {
    float most = 0;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        most = fmaxf(most, fmaxf(units[r].tile_sum[0], units[r].tile_sum[1]));
    if (!__all_sync(0xffffffffu, state > 0 && most <= USUAL_SUM)) {
        // The other half of the tile is weighed by the same m, unless that is far from 0.
        const int left = max(state - 1, FIRST + KEYS < BLOCK_N ? 1 : 0);
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            raise_max_of_unit<FIRST, KEYS>(units[r], state);
        state = state_of(units, state > 0 ? left : 0);
    }
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int row = 0; row < 2; row++)
            units[r].rows.sum[row] += units[r].tile_sum[row];
}

// S, and exponentials that are computed beside it: products have a copy for each way, or the exponentials would come behind them.
__device__ __forceinline__ void begin_tile(UnitRows (&units)[ROW_TILES], const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k,
                                           State state) {
    const unsigned thread = thread_of_round();
    if (keeps_max(units, state)) {
        //$ if overlap == halves
        multiply_scores<0, SPLIT_N>(units, q, k, thread);
        weigh<0, SPLIT_N>(units);
        multiply_scores<SPLIT_N, BLOCK_N - SPLIT_N>(units, q, k, thread);
        //$ else
        multiply_scores<0, BLOCK_N>(units, q, k, thread);
        weigh<0, SPLIT_N>(units);
        //$ end
    } else {
        multiply_scores<0, BLOCK_N>(units, q, k, thread);
    }
}

// P, and O += P V.
__device__ __forceinline__ void end_tile(UnitRows (&units)[ROW_TILES], const Rows16<BLOCK_N, CHUNKS_V> &v, State &state) {
    const unsigned thread = thread_of_round();
    Weights p[ROW_TILES];
    if (keeps_max(units, state)) {
        accumulate_row_sums<0, SPLIT_N>(units, state);
        pack_weights<0, SPLIT_N>(units, p);
        //$ if overlap != off
        weigh<SPLIT_N, BLOCK_N - SPLIT_N>(units);
        //$ end
        multiply_output<0, SPLIT_N>(units, p, v, thread);
        //$ if overlap != off
        accumulate_row_sums<SPLIT_N, BLOCK_N - SPLIT_N>(units, state);
        pack_weights<SPLIT_N, BLOCK_N - SPLIT_N>(units, p);
        multiply_output<SPLIT_N, BLOCK_N - SPLIT_N>(units, p, v, thread);
        //$ end
    } else {
        softmax_units(units, p, true);
        multiply_output<0, BLOCK_N>(units, p, v, thread);
        state = state_of(units, state < 0 ? -state : state);
    }
}
