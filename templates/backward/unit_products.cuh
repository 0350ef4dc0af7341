//$ needs bfloat16
//$ include "target/sm_90a_products.cuh"

// Products of a warpgroup that owns 64 rows, issued as asynchronous wgmma. Tiles are stored in panels of 64 columns, [panel][row][64],
// 128 bytes per row. Distances in descriptors are in units of 16 bytes.

constexpr int ROWS_OF_STEP = 16 * 128 / 16, COLUMNS_OF_STEP = 16 * 2 / 16;

// sum (64, N) = own (64, DIM) other (N, DIM)^T; `other` begins in panels of ROWS rows.
template <int DIM, int N, int ROWS = N>
__device__ __forceinline__ void multiply_rows(float (&sum)[N / 2], unsigned long long own, unsigned long long other) {
    wgmma_ss<N, false, false, true, BFLOAT16>(sum, own, other);
#pragma unroll
    for (int step = 1; step < (DIM + 15) / 16; step++)
        wgmma_ss<N, true, false, true, BFLOAT16>(sum, own + step / 4 * (64 * 128 / 16) + step % 4 * COLUMNS_OF_STEP,
                                                 other + step / 4 * (ROWS * 128 / 16) + step % 4 * COLUMNS_OF_STEP);
}

// sum (64, DIM) += weights (64, N) other (N, DIM), with weights in the registers of the threads that own their rows
template <int DIM, int N>
__device__ __forceinline__ void add_weighted(float (&sum)[DIM / 2], const unsigned (&weights)[N / 16][4], unsigned long long other) {
#pragma unroll
    for (int step = 0; step < N / 16; step++)
        wgmma_rs<DIM, true, false, BFLOAT16>(sum, weights[step], other + step * ROWS_OF_STEP);
}
