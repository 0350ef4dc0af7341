//$ needs bfloat16
//$ include "backward/unit_products.cuh"
//$ include "target/sm_80.cuh"

// The warp's rows of a 64-row tile, as an operand in registers.
template <int DIM> using OwnRows = unsigned[(DIM + 15) / 16][4];

template <int DIM, int PANELS_OF> __device__ __forceinline__ void load_own_rows(OwnRows<DIM> &own, const Panels<PANELS_OF, 64> &from) {
    const int thread = static_cast<int>(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 16;
#pragma unroll
    for (int step = 0; step < (DIM + 15) / 16; step++)
        load_matrices(own[step], &from[step / 4][row][(step % 4 * 2 + thread % 32 / 16 ^ row % 8) * 8]);
}

// sum (64, N) = own (64, DIM) other (N, DIM)^T
template <int DIM, int N>
__device__ __forceinline__ void multiply_own_rows(float (&sum)[N / 2], const OwnRows<DIM> &own, unsigned long long other) {
#pragma unroll
    for (int step = 0; step < (DIM + 15) / 16; step++) {
        const unsigned long long b = other + step / 4 * (N * 128 / 16) + step % 4 * COLUMNS_OF_STEP;
        if (step == 0)
            wgmma_rs<N, false, true, BFLOAT16>(sum, own[step], b);
        else
            wgmma_rs<N, true, true, BFLOAT16>(sum, own[step], b);
    }
}
