//$ needs consumers dq_columns bfloat16 d_s_of_keys
//$ include "backward/unit_products.cuh"

// Issues dq (64 queries, DQ_COLUMNS) = dS K over the keys of all consumers. `d_s`, `k`: return the descriptors of consumer i's 64 keys:
// of dS^T (64 keys, 64 queries) and K (64 keys, DQ_COLUMNS). //$ if d_s_of_keys
// of dS (64 queries, 64 keys) and K (64 keys, DQ_COLUMNS). //$ else
template <class DescriptorOfDS, class DescriptorOfK>
__device__ __forceinline__ void multiply_keys(float (&dq)[DQ_COLUMNS / 2], DescriptorOfDS d_s, DescriptorOfK k) {
    constexpr bool TRANSPOSED = true;  //$ if d_s_of_keys
    constexpr bool TRANSPOSED = false; //$ else
    constexpr int D_S_STEP = TRANSPOSED ? ROWS_OF_STEP : COLUMNS_OF_STEP;
#pragma unroll
    for (int i = 0; i < CONSUMERS; i++) {
        const unsigned long long a = d_s(i), b = k(i);
#pragma unroll
        for (int step = 0; step < 4; step++)
            if (i == 0 && step == 0)
                wgmma_ss<DQ_COLUMNS, false, TRANSPOSED, false, BFLOAT16>(dq, a, b);
            else
                wgmma_ss<DQ_COLUMNS, true, TRANSPOSED, false, BFLOAT16>(dq, a + step * D_S_STEP, b + step * ROWS_OF_STEP);
    }
}
