//$ needs consumers dq_columns step_m panels
//$ include "backward/part_of_dq.cuh"

// A consumer's part of dQ = dS K: the queries from 64 * index on, of the 128 of a step.

// Issues dq (64 queries, DQ_COLUMNS) = dS K over the keys of all consumers.
__device__ __forceinline__ void multiply_part_of_dq(float (&dq)[DQ_COLUMNS / 2], Panels<STEP_M / 64, 64> (&d_s)[CONSUMERS],
                                                     Panels<PANELS, 64> (&k)[CONSUMERS], int index) {
    multiply_keys(
        dq, [&](int i) { return matrix_descriptor(d_s[i][index], 0); }, [&](int i) { return matrix_descriptor(k[i], 0); });
}

//$ include "backward/send_dq.cuh"
