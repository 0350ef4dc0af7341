//$ needs block_n bias_stages
//$ include "expression/bias_rows.cuh"
//$ include "fragment/score_bias_pairs.cuh"

// Applies the score expression to S of a K/V tile, with rows of a bias that were copied to shared memory beforehand.
struct Score {
    int index;               // of the consumer
    Ring<BIAS_STAGES> ring;  // tiles that were scored or skipped
};

// Waits for the bias of the tile. False if the producer copies nothing.
__device__ __forceinline__ bool await_bias(const Score &score, const attention_params &p, Shared &shared) {
    if (!rows_in_pieces(p))
        return false;
    barrier_wait(&shared.bias.full[score.ring.stage()][score.index], score.ring.parity());
    return true;
}
__device__ __forceinline__ void bias_done(Score &score, const attention_params &p, Shared &shared) {
    if (!rows_in_pieces(p))
        return;
    __syncwarp();
    if (elect_one())
        barrier_arrive(&shared.bias.empty[score.ring.stage()][score.index]);
    score.ring.count++;
}

__device__ __forceinline__ void skip_bias(Score &score, const attention_params &p, Shared &shared) {
    if (await_bias(score, p, shared))
        bias_done(score, p, shared);
}

// Loads the bias of the warp's own rows where the producer does not, in the tile that begins with key `first`: in pieces where possible,
// whose latencies overlap, and otherwise one key at a time.
__device__ __forceinline__ void fill_bias(const Unit &unit, BiasRows &bias, int first) {
    const int top = warp_index() % 4 * 16, pieces = rows_in_pieces(unit.p) ? (unit.p.len_kv - first) / 8 : 0;
    const int line = top + unit.lane % 16;
    const unsigned short *row = bias_element(unit.p, unit.where, unit.position(line), first);
    __syncwarp(); // other lanes have read what was there
#pragma unroll 1
    for (int i = unit.lane / 16; i < pieces; i += 2)
        copy_piece(&bias[line][8 * i], row + 8 * i);
#pragma unroll 1
    for (int column = 8 * pieces + unit.lane; column < BLOCK_N; column += 32) {
        const int key = first + column;
#pragma unroll 1
        for (int i = top; i < top + 16; i += 4) {
            unsigned short value[4] = {0}; // their latencies overlap, too
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (key < unit.p.len_kv)
                    value[j] = *bias_element(unit.p, unit.where, unit.position(i + j), key);
#pragma unroll
            for (int j = 0; j < 4; j++)
                bias[i + j][column] = value[j];
        }
    }
    copy_pieces_wait();
    __syncwarp();
}

__device__ __forceinline__ void apply_score(float (&s)[BLOCK_N / 2], const Score &score, const Unit &unit, int tile_n,
                                            Shared &shared) {
    const attention_params &p = unit.p;
    BiasRows &bias = shared.bias.rows[score.ring.stage()][score.index];
    int key = tile_n * BLOCK_N + unit.lane % 4 * 2;
    if (!await_bias(score, p, shared) || (tile_n + 1) * BLOCK_N > p.len_kv)
        fill_bias(unit, bias, tile_n * BLOCK_N);
    const int row = unit.row(), q[2] = {unit.position(row), unit.position(row + 8)};
    const unsigned short *line = &bias[warp_index() % 4 * 16 + unit.lane % 16][unit.lane / 16 * 8];
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i += 8) { // 16 columns
        unsigned pair[4];
        load_matrices(pair, line + 2 * i);
        score_sixteen(s + i, pair, unit, q, key, 2 * i);
    }
}
