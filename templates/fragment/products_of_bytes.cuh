//$ needs block_n row_groups key_groups q_steps o_steps chunks chunks_v mask dtype_kv
//$ include "load/pieces.cuh"
//$ include "fragment/softmax_columns.cuh"
//$ include "fragment/not_finite_columns.cuh" if mask != none and dtype_kv != int8

// Products with 8-bit K and V, which are converted to halves in registers: ldmatrix treats two neighbouring bytes as one element.

// Returns the column of O of elements 2 (group % 2) and the next in step group / 2. `group` counts 8 rows of a product, which are every
// other column.
__device__ __forceinline__ int column_of(int group) {
    return group / 2 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 * 2 + group % 2;
}

// S^T (BLOCK_N, BLOCK_M) = K Q^T.
__device__ __forceinline__ void multiply_scores(Scores &s, const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k) {
    const SharedAddress first = k.address(threadIdx.x % 32, 0);
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
        unsigned bytes[4]; // 16 columns of 32 keys: for keys lane / 4 and 8, 16, 24 further on, the four columns from lane % 4 * 4 on
        load_matrices_at(bytes, k.beyond(first, 0, step));
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++) {
            unsigned upper[2], lower[2];
            halves_of(upper, bytes[2 * t]);
            halves_of(lower, bytes[2 * t + 1]);
            const unsigned a[4] = {upper[0], lower[0], upper[1], lower[1]};
#pragma unroll
            for (int n = 0; n < ROW_GROUPS; n++) {
                float(&sum)[4] = s.s[n][t];
                mma<false>(sum[0], sum[1], sum[2], sum[3], a, b[n][0], b[n][1]);
            }
        }
    }
}

// O^T (COLUMNS_V, BLOCK_M) += V^T P^T. `masked`: some row does not see some key.
__device__ __forceinline__ void multiply_output(float (&o)[ROW_GROUPS][O_STEPS][4], const Weights &weights,
                                                const Rows16<BLOCK_N, CHUNKS_V> &v, bool masked) {
    const SharedAddress first = v.address(threadIdx.x % 32, 0);
#pragma unroll
    for (int step = 0; step < O_STEPS; step++) {
        unsigned bytes[4]; // 16 columns of 32 keys: for keys lane % 4 * 2 and the next, and 8, 16, 24 further on, columns lane / 4 * 2
                           // and the next
        load_matrices_transposed(bytes, v.beyond(first, 0, step));
#pragma unroll
        for (int t = 0; t < KEY_GROUPS; t++) {
            unsigned early[2], late[2]; // each register: one column of two keys
            halves_of(early, permute_bytes(bytes[2 * t], 0, 0x3120));
            halves_of(late, permute_bytes(bytes[2 * t + 1], 0, 0x3120));
            unsigned a[4] = {early[0], early[1], late[0], late[1]};
            //$ if mask != none and dtype_kv != int8
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
                mma<false>(sum[0], sum[1], sum[2], sum[3], a, weights.pairs[n][t][0], weights.pairs[n][t][1]);
            }
        }
    }
}
