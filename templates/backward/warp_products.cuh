//$ needs bfloat16
//$ include "load/pieces.cuh"
//$ include "fragment/not_finite.cuh"

// Products of a warp that owns 16 TILES rows: what it reads of the other side serves all of them.

// sum (16 TILES, COLUMNS) = own other^T, for rows of 16 STEPS elements. Row `first` of `own` is the warp's first.
template <int STEPS, int TILES, int COLUMNS, int ROWS, int WIDTH>
__device__ __forceinline__ void multiply_rows(float (&sum)[TILES][COLUMNS / 2], const Rows16<ROWS, WIDTH> &own, int first,
                                              const Rows16<COLUMNS, WIDTH> &other) {
    const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
    const SharedAddress first_own = own.address(first + lane % 16, lane / 16);
    const SharedAddress first_other = other.address(lane / 16 * 8 + lane % 8, lane % 16 / 8);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (float &value : sum[t])
            value = 0;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        unsigned a[TILES][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            load_matrices_at(a[t], own.beyond(first_own, 16 * t, 2 * step));
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            unsigned b[4];
            load_matrices_at(b, other.beyond(first_other, 16 * n, 2 * step));
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                float *s = &sum[t][8 * n];
                mma<BFLOAT16>(s[0], s[1], s[2], s[3], a[t], b[0], b[1]);
                mma<BFLOAT16>(s[4], s[5], s[6], s[7], a[t], b[2], b[3]);
            }
        }
    }
}

// sum (16 TILES, COLUMNS) += weights (16 TILES, ROWS) other. Each thread has its own weights, and they are rounded to 16 bits.
// FINITE: uses only the finite elements of `other`.
template <int TILES, int COLUMNS, bool FINITE = false, int ROWS, int WIDTH>
__device__ __forceinline__ void add_weighted(float (&sum)[TILES][COLUMNS / 2], const float (&weights)[TILES][ROWS / 2],
                                             const Rows16<ROWS, WIDTH> &other) {
    const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
    const SharedAddress first = other.address(lane % 16, lane / 16);
#pragma unroll
    for (int n = 0; n < ROWS / 16; n++) {
        unsigned a[TILES][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[t][i] = pack<BFLOAT16>(weights[t][8 * n + 2 * i], weights[t][8 * n + 2 * i + 1]);
#pragma unroll
        for (int j = 0; j < WIDTH / 2; j++) { // 16 columns
            unsigned b[4];
            load_matrices_transposed(b, other.beyond(first, 16 * n, 2 * j));
            if constexpr (FINITE)
#pragma unroll
                for (unsigned &pair : b)
                    pair &= ~not_finite(pair);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                float *s = &sum[t][8 * j];
                mma<BFLOAT16>(s[0], s[1], s[2], s[3], a[t], b[0], b[1]);
                if (8 * j + 4 < COLUMNS / 2) // with an odd number of 8-column groups, the last step is half full
                    mma<BFLOAT16>(s[4], s[5], s[6], s[7], a[t], b[2], b[3]);
            }
        }
    }
}
