//$ needs consumers head_dim dq_columns step_m panels bfloat16
//$ include "backward/unit_products.cuh"
//$ include "target/sm_90_sums.cuh"

// A consumer's part of dQ = dS K: the columns from index * DQ_COLUMNS on, of the 64 queries of a step.

constexpr int D_S_READERS = CONSUMERS; // consumers that read a tile of dS
constexpr int DQ_LATE = 1;             // dQ is multiplied so many steps late

// dq (64 queries, DQ_COLUMNS), over the keys of all consumers.
__device__ __forceinline__ void multiply_part_of_dq(float (&dq)[DQ_COLUMNS / 2], Panels<STEP_M / 64, 64> (&d_s)[CONSUMERS],
                                                     Panels<PANELS, 64> (&k)[CONSUMERS], int index) {
    const int column = index * DQ_COLUMNS;
#pragma unroll
    for (int i = 0; i < CONSUMERS; i++) {
        const unsigned long long a = matrix_descriptor(d_s[i], 0);
        const unsigned long long b = matrix_descriptor(&k[i][column / 64][0][column % 64], 0);
#pragma unroll
        for (int step = 0; step < 4; step++)
            if (i == 0 && step == 0)
                wgmma_ss<DQ_COLUMNS, false, true, false, BFLOAT16>(dq, a, b);
            else
                wgmma_ss<DQ_COLUMNS, true, true, false, BFLOAT16>(dq, a + step * ROWS_OF_STEP, b + step * ROWS_OF_STEP);
    }
}

// To the sums of the step's queries.
__device__ __forceinline__ void send_part_of_dq(const float (&dq)[DQ_COLUMNS / 2], const attention_params &p, SharedKeys &, int index,
                                                int, int sums) {
    float *const to = dq_sums(p, sums) + set_apart(static_cast<int>(threadIdx.x) % 128) * 4;
    const int column = index * DQ_COLUMNS;
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        if (HEAD_DIM == 2 * DQ_COLUMNS || column + 8 * i < HEAD_DIM)
            add_to_memory(to + (column / 8 + i) * 512, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
}
