//$ needs consumers dq_columns bfloat16
//$ include "backward/unit_products.cuh"

// Issues dq (64 queries, DQ_COLUMNS) = dS K over the keys of all consumers. `d_s`, `k`: return the descriptors of dS (64
// queries, 64 keys) or dS^T, and of K (64 keys, DQ_COLUMNS) of consumer i.
template <bool D_S_TRANSPOSED, class DescriptorOfDS, class DescriptorOfK>
__device__ __forceinline__ void multiply_keys(float (&dq)[DQ_COLUMNS / 2], DescriptorOfDS d_s, DescriptorOfK k) {
#pragma unroll
    for (int i = 0; i < CONSUMERS; i++) {
        const unsigned long long a = d_s(i), b = k(i);
#pragma unroll
        for (int step = 0; step < 4; step++)
            if (i == 0 && step == 0)
                wgmma_ss<DQ_COLUMNS, false, D_S_TRANSPOSED, false, BFLOAT16>(dq, a, b);
            else
                wgmma_ss<DQ_COLUMNS, true, D_S_TRANSPOSED, false, BFLOAT16>(
                    dq, a + step * (D_S_TRANSPOSED ? ROWS_OF_STEP : COLUMNS_OF_STEP), b + step * ROWS_OF_STEP);
    }
}
