//$ needs bfloat16
//$ include "backward/unit_products.cuh"
//$ include "target/sm_80.cuh"

// The first 16 STEPS columns of the warp's rows of a 64-row tile, as an operand in registers.
template <int STEPS> struct OwnRows {
    unsigned step[STEPS > 0 ? STEPS : 1][4];
};

template <int STEPS, int PANELS_OF> __device__ __forceinline__ void load_own_rows(OwnRows<STEPS> &own, const Panels<PANELS_OF, 64> &from) {
    const int thread = static_cast<int>(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 16;
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        load_matrices(own.step[i], &from[i / 4][row][(i % 4 * 2 + thread % 32 / 16 ^ row % 8) * 8]);
}

// sum (64, N) = rows (64, DIM) other (N, DIM)^T, where `own` holds the first columns of `rows`.
template <int DIM, int N, int STEPS>
__device__ __forceinline__ void multiply_own_rows(float (&sum)[N / 2], const OwnRows<STEPS> &own, unsigned long long rows,
                                                  unsigned long long other) {
#pragma unroll
    for (int i = 0; i < (DIM + 15) / 16; i++) {
        const unsigned long long a = rows + i / 4 * (64 * 128 / 16) + i % 4 * COLUMNS_OF_STEP;
        const unsigned long long b = other + i / 4 * (N * 128 / 16) + i % 4 * COLUMNS_OF_STEP;
        if (i == 0 && STEPS > 0)
            wgmma_rs<N, false, true, BFLOAT16>(sum, own.step[0], b);
        else if (i == 0)
            wgmma_ss<N, false, false, true, BFLOAT16>(sum, a, b);
        else if (i < STEPS)
            wgmma_rs<N, true, true, BFLOAT16>(sum, own.step[i < STEPS ? i : 0], b);
        else
            wgmma_ss<N, true, false, true, BFLOAT16>(sum, a, b);
    }
}
