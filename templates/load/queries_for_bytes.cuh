//$ needs dtype head_dim q_steps row_groups score kv_scale row_units
//$ include "load/pieces.cuh"
//$ include "sequence/pair.cuh"
//$ include "work/run.cuh"
//$ include "load/halves_of_bf16.cuh" if dtype == bf16

// Q^T of a Q tile as operand b of S^T = K Q^T, where K has 8-bit elements. Every warp holds it in registers, as
// fp16: row lane / 4 of each group of 8 rows. A lane gets four neighbouring columns of K by one load, so it holds
// the same columns of Q. Of 16 columns, lane % 4 * 4 and the next one serve as columns lane % 4 * 2 and the next of
// the product, and the two after them as the columns 8 further on.

// Q as it is in memory.
struct QueriesAhead {
    unsigned pairs[ROW_GROUPS][Q_STEPS][2];
    float k_scale, v_scale; //$ if kv_scale in [tensor, head]
};

struct Queries {
    unsigned pairs[ROW_GROUPS][Q_STEPS][2];
    float unit[ROW_GROUPS][2]; // of rows lane % 4 * 2 and the next: S is in these units //$ if row_units
    float v_scale; //$ if kv_scale in [tensor, head]

    __device__ __forceinline__ void operand(unsigned (&b)[ROW_GROUPS][2], int step) const {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
            b[n][0] = pairs[n][step][0], b[n][1] = pairs[n][step][1];
    }
    // Takes the Q that was loaded ahead.
    __device__ __forceinline__ void begin(const QueriesAhead &ahead) {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++) {
            //$ if dtype == bf16
            const float power = to_halves(pairs[n], ahead.pairs[n]);
#pragma unroll
            for (int j = 0; j < 2; j++)
                unit[n][j] = __shfl_sync(0xffffffffu, power, (threadIdx.x % 4 * 2 + j) * 4) * ahead.k_scale; //$ if kv_scale in [tensor, head]
                unit[n][j] = __shfl_sync(0xffffffffu, power, (threadIdx.x % 4 * 2 + j) * 4);                 //$ else
            //$ else
#pragma unroll
            for (int i = 0; i < 2 * Q_STEPS; i++)
                pairs[n][i / 2][i % 2] = ahead.pairs[n][i / 2][i % 2];
            unit[n][0] = unit[n][1] = ahead.k_scale; //$ if kv_scale in [tensor, head]
            //$ end
        }
        v_scale = ahead.v_scale; //$ if kv_scale in [tensor, head]
    }
};

__device__ __forceinline__ QueriesAhead load_queries(const attention_params &p, const Tile &tile) {
    const int lane = threadIdx.x % 32;
    const bool in_fours = HEAD_DIM % 4 == 0 && piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride) >= 8;
    QueriesAhead q;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++) {
        const Row at = row_of(p, tile, 8 * n + lane / 4);
        const Input *row = static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                           at.query * p.q_row_stride;
#pragma unroll
        for (int step = 0; step < Q_STEPS; step++) {
            const int column = 16 * step + lane % 4 * 4;
            uint2 four = make_uint2(0, 0);
            if (at.query < p.len_q && column < HEAD_DIM) {
                if (in_fours)
                    four = *reinterpret_cast<const uint2 *>(row + column);
                else
                    four = make_uint2(pair_at<HEAD_DIM>(row + column, column), pair_at<HEAD_DIM>(row + column + 2, column + 2));
            }
            // -Q if scale < 0: scale Q K^T = |scale| (-Q) K^T, so the largest product always gives the largest score. //$ if score != custom_score
            const unsigned signs = p.scale < 0 ? 0x80008000 : 0; //$ if score != custom_score
            q.pairs[n][step][0] = four.x ^ signs, q.pairs[n][step][1] = four.y ^ signs; //$ if score != custom_score
            q.pairs[n][step][0] = four.x, q.pairs[n][step][1] = four.y;                 //$ else
        }
    }
    //$ if kv_scale in [tensor, head]
    q.k_scale = p.k_scale[tile.kv_head * p.k_scale_head_stride];
    q.v_scale = p.v_scale[tile.kv_head * p.v_scale_head_stride];
    //$ end
    return q;
}
