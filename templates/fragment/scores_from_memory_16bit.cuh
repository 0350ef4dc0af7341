//$ needs head_dim score bfloat16 q_steps page_size
//$ include "fragment/unit.cuh"
//$ include "sequence/pair.cuh"

// A warp computes S of its 16 rows by itself, with mma.sync from global memory: for cases too rare to keep stages of Q and K for.
// Accumulators of mma have the layout of those of wgmma.

// Returns two neighbouring columns of Q, negated where scale is negative, as Q in shared memory is.
__device__ __forceinline__ unsigned query_pair(const attention_params &p, const Input *q, int column) {
    return pair_at<HEAD_DIM>(q, column);                                  //$ if score == custom_score
    return pair_at<HEAD_DIM>(q, column) ^ (p.scale < 0 ? 0x80008000 : 0); //$ else
}

// S (16, KEYS) = Q K^T, for the warp's rows of the unit and keys from `first` on. The last row stands in for rows of Q and K that do
// not exist: such scores are masked, or not stored. Addresses are recomputed for every step, since registers are full.
template <int KEYS>
__device__ __forceinline__ void scores_from_memory(float (&s)[KEYS / 2], const Unit &unit, int first) {
    const attention_params &p = unit.p;
#pragma unroll
    for (float &score : s)
        score = 0;
#pragma unroll(KEYS > 16 ? 1 : HEAD_DIM <= 64 ? 2 : 4) // few keys leave registers for loads in flight
    for (int step = 0; step < Q_STEPS; step++) { // of 16 columns, or the last few
        const int column = opaque(16 * step) + unit.lane % 4 * 2;
        const bool both = 16 * step + 8 < HEAD_DIM;
        unsigned a[4];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const Row at = unit.at(unit.row() + 8 * r);
            const Input *q = static_cast<const Input *>(p.q) + unit.tile.batch * p.q_batch_stride +
                             at.head * p.q_head_stride + min(at.query, p.len_q - 1) * p.q_row_stride + column;
            a[r] = query_pair(p, q, column);
            a[r + 2] = both ? query_pair(p, q + 8, column + 8) : 0;
        }
        const int key = opaque(first) + unit.lane / 4;
        //$ if page_size > 0
        const Input *k = static_cast<const Input *>(p.k) + unit.tile.kv_head * p.k_head_stride + column;
#pragma unroll 1 // each row has a page number, too, so one row at a time, and S moves on by 8 keys each time
        for (int n = 0; n < KEYS / 8; n++) {
            const Input *row = k + paged_row(p, min(key + 8 * n, p.len_kv - 1), p.k_batch_stride, p.k_row_stride);
            const unsigned low = pair_at<HEAD_DIM>(row, column);
            const unsigned high = both ? pair_at<HEAD_DIM>(row + 8, column + 8) : 0;
            float sum[4] = {s[0], s[1], s[2], s[3]};
            mma<BFLOAT16>(sum[0], sum[1], sum[2], sum[3], a, low, high);
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++)
                s[i] = i + 4 < KEYS / 2 ? s[i + 4] : sum[i + 4 - KEYS / 2];
        }
        //$ else
        const Input *k = static_cast<const Input *>(p.k) + unit.tile.batch * p.k_batch_stride + unit.tile.kv_head * p.k_head_stride + column;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            const Input *row = k + min(key + 8 * n, p.len_kv - 1) * p.k_row_stride;
            const unsigned low = pair_at<HEAD_DIM>(row, column);
            const unsigned high = both ? pair_at<HEAD_DIM>(row + 8, column + 8) : 0;
            mma<BFLOAT16>(s[4 * n], s[4 * n + 1], s[4 * n + 2], s[4 * n + 3], a, low, high);
        }
        //$ end
    }
}
