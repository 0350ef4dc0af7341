//$ needs consumers dq_columns step_m panels bfloat16
//$ include "backward/unit_products.cuh"

// A consumer's part of dQ = dS K: the queries from 64 * index on, of the 128 of a step.

// dq (64 queries, DQ_COLUMNS), over the keys of all consumers.
__device__ __forceinline__ void multiply_part_of_dq(float (&dq)[DQ_COLUMNS / 2], Panels<STEP_M / 64, 64> (&d_s)[CONSUMERS],
                                                     Panels<PANELS, 64> (&k)[CONSUMERS], int index) {
#pragma unroll
    for (int i = 0; i < CONSUMERS; i++) {
        const unsigned long long a = matrix_descriptor(d_s[i][index], 0);
        const unsigned long long b = matrix_descriptor(k[i], 0);
#pragma unroll
        for (int step = 0; step < 4; step++)
            if (i == 0 && step == 0)
                wgmma_ss<DQ_COLUMNS, false, true, false, BFLOAT16>(dq, a, b);
            else
                wgmma_ss<DQ_COLUMNS, true, true, false, BFLOAT16>(dq, a + step * ROWS_OF_STEP, b + step * ROWS_OF_STEP);
    }
}

