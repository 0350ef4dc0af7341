//$ needs row_tiles block_n chunks chunks_v
//$ include "pipeline/softmax_of_units.cuh"

// How a warp processes a K/V tile. m follows the maxima of its scores.

using State = bool;
constexpr State BEFORE_TILES = true;

__device__ __forceinline__ void begin_tile(UnitRows (&units)[ROW_TILES], const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k,
                                           State) {
    multiply_scores(units, q, k, thread_of_round());
}
__device__ __forceinline__ void end_tile(UnitRows (&units)[ROW_TILES], const Rows16<BLOCK_N, CHUNKS_V> &v, State &state) {
    Weights p[ROW_TILES];
    softmax_units(units, p, state == BEFORE_TILES);
    multiply_output(units, p, v, thread_of_round());
    state = !BEFORE_TILES;
}
