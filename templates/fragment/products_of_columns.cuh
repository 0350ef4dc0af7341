//$ needs block_n row_groups key_groups q_steps o_steps chunks mask bfloat16
//$ include "load/pieces.cuh"
//$ include "fragment/softmax_columns.cuh"
//$ include "fragment/not_finite_columns.cuh" if mask != none

// Returns the column of O of elements 2 (group % 2) and the next in step group / 2. `group` counts 8 columns.
__device__ __forceinline__ int column_of(int group) { return 8 * group + static_cast<int>(threadIdx.x) % 32 / 4; }

// S^T (BLOCK_N, BLOCK_M) = K Q^T.
__device__ __forceinline__ void multiply_scores(Scores &s, const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k) {
    const unsigned lane = threadIdx.x % 32;
    const SharedAddress first = k.address(lane % 16, lane / 16);
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
            for (float &score : s.s[n][t])
                score = 0;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++) {
        unsigned b[ROW_GROUPS][2];
        q.operand(b, step);
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++) {
            unsigned a[4];
            load_matrices_at(a, k.beyond(first, 16 * t, 2 * step)); // 16 columns of 16 keys
#pragma unroll
            for (int n = 0; n < ROW_GROUPS; n++) {
                float(&sum)[4] = s.s[n][t];
                mma<BFLOAT16>(sum[0], sum[1], sum[2], sum[3], a, b[n][0], b[n][1]);
            }
        }
    }
}

// O^T (COLUMNS_V, BLOCK_M) += V^T P^T. `masked`: some row does not see some key.
template <int WIDTH>
__device__ __forceinline__ void multiply_output(float (&o)[ROW_GROUPS][O_STEPS][4], const Weights &weights,
                                                const Rows16<BLOCK_N, WIDTH> &v, bool masked) {
    const unsigned lane = threadIdx.x % 32;
    const SharedAddress first = v.address(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < O_STEPS; step++)
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++) {
            unsigned a[4];
            load_matrices_transposed(a, v.beyond(first, 16 * t, 2 * step));
            //$ if mask != none
            if (masked) {
                unsigned odd[4], some = 0;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const unsigned which = not_finite(a[i]);
                    odd[i] = a[i] & which;
                    a[i] &= ~which;
                    some |= which;
                }
                if (__any_sync(0xffffffffu, some != 0))
                    add_not_finite(o, step, odd, weights, t);
            }
            //$ end
#pragma unroll
            for (int n = 0; n < ROW_GROUPS; n++) {
                float(&sum)[4] = o[n][step];
                mma<BFLOAT16>(sum[0], sum[1], sum[2], sum[3], a, weights.pairs[n][t][0], weights.pairs[n][t][1]);
            }
        }
}
