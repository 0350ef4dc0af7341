//$ needs block_n
//$ include "load/bias_tile.cuh"
//$ include "fragment/score_bias_pairs.cuh"

// Applies the score expression to S of a K/V tile, with rows of a bias that were copied to shared memory together with K.
struct Score {
    SharedAddress rows; // of the bias of this tile: the address that this thread passes to ldmatrix for the first 16 keys
};

__device__ __forceinline__ SharedAddress rows_of_warp(const BiasTile &bias) {
    const unsigned thread = thread_of_round();
    return bias.address(first_row_of_warp(thread) + thread % 16, thread % 32 / 16);
}

// Applies the score expression to S of the tile's keys from FIRST on.
template <int FIRST = 0, int SIZE>
__device__ __forceinline__ void apply_score(float (&s)[SIZE], const Score &score, const Unit &unit, int tile_n, Shared &) {
    const int key = tile_n * BLOCK_N + unit.lane % 4 * 2;
    const int row = unit.row(), q[2] = {unit.position(row), unit.position(row + 8)};
#pragma unroll
    for (int i = 0; i < SIZE; i += 8) { // 16 columns
        unsigned pair[4];
        load_matrices_at(pair, BiasTile::beyond(score.rows, 0, (FIRST / 2 + i) / 4));
        score_sixteen(s + i, pair, unit, q, key, (FIRST / 2 + i) * 2);
    }
}
