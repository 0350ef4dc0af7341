//$ needs head_dim q_steps row_groups score
//$ include "load/pieces.cuh"
//$ include "sequence/pair.cuh"
//$ include "work/run.cuh"

// Q^T of a Q tile as operand b of S^T = K Q^T. Every warp holds it in registers: row lane / 4 of each group of 8 rows.
struct Queries {
    unsigned pairs[ROW_GROUPS][Q_STEPS][2]; // columns 16 step + lane % 4 * 2 and the next, and 8 further on

    __device__ __forceinline__ void operand(unsigned (&b)[ROW_GROUPS][2], int step) const {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
            b[n][0] = pairs[n][step][0], b[n][1] = pairs[n][step][1];
    }
    // Takes the Q that was loaded ahead.
    __device__ __forceinline__ void begin(const Queries &ahead) { *this = ahead; }
};
using QueriesAhead = Queries;

__device__ __forceinline__ QueriesAhead load_queries(const attention_params &p, const Tile &tile) {
    const int lane = threadIdx.x % 32;
    const bool in_pairs = HEAD_DIM % 2 == 0 && piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride) >= 4;
    Queries q;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++) {
        const Row at = row_of(p, tile, 8 * n + lane / 4);
        const Input *row = static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                           at.query * p.q_row_stride;
#pragma unroll
        for (int i = 0; i < 2 * Q_STEPS; i++) {
            const int column = 8 * i + lane % 4 * 2;
            unsigned pair = 0;
            if (at.query < p.len_q && column < HEAD_DIM)
                pair = in_pairs ? *reinterpret_cast<const unsigned *>(row + column)
                                : pair_at<HEAD_DIM>(row + column, column);
            // -Q if scale < 0: scale Q K^T = |scale| (-Q) K^T, so the largest product always gives the largest score. //$ if score != custom_score
            q.pairs[n][i / 2][i % 2] = pair ^ (p.scale < 0 ? 0x80008000 : 0); //$ if score != custom_score
            q.pairs[n][i / 2][i % 2] = pair;                                  //$ else
        }
    }
    return q;
}
