//$ include "backward/warp_products.cuh"
//$ include "fragment/not_finite.cuh"

// NaN and infinity in rows of Q, K and dO. A pair that is not seen has P = 0 and dS = 0, but 0 * NaN and 0 * infinity are NaN. So a
// block whose sums are not all finite computes them again, from the finite elements of the rows, and from the others where they count. In
// Q and K the others never count: with them the score of a pair is not finite, so dS is NaN where it is not 0.

template <int TILES, int COLUMNS> __device__ __forceinline__ bool has_not_finite(const float (&sum)[TILES][COLUMNS]) {
    float all = 0; // finite only if all terms are
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (float value : sum[t])
            all += value;
    return !(fabsf(all) < INFINITY);
}

// True if any thread of the block says yes. `place`: shared memory that is no longer in use.
__device__ __forceinline__ bool some_thread_says(bool yes, void *place) {
    int *flag = static_cast<int *>(place);
    __syncthreads();
    if (threadIdx.x == 0)
        *flag = 0;
    __syncthreads();
    if (yes)
        atomicMax(flag, 1);
    __syncthreads();
    const bool said = *flag != 0;
    __syncthreads(); // before the place is used again
    return said;
}

// Returns which rows of a tile have an element that is not finite, one bit per row.
template <int ROWS, int WIDTH> __device__ __forceinline__ unsigned long long rows_not_finite(const Rows16<ROWS, WIDTH> &tile) {
    unsigned long long rows = 0;
#pragma unroll 1
    for (int first = 0; first < ROWS; first += 32) {
        const int row = first + static_cast<int>(threadIdx.x) % 32;
        unsigned found = 0;
#pragma unroll 1
        for (int i = 0; row < ROWS && i < WIDTH; i++) {
            const uint4 chunk = tile.chunk[row * WIDTH + i];
            found |= not_finite(chunk.x) | not_finite(chunk.y) | not_finite(chunk.z) | not_finite(chunk.w);
        }
        rows |= static_cast<unsigned long long>(__ballot_sync(0xffffffffu, found != 0)) << first;
    }
    return rows;
}

// sum (16 TILES, COLUMNS) += weights (16 TILES, ROWS) times the elements of `other` that are not finite, without weights of 0.
template <int TILES, int COLUMNS, int ROWS, int WIDTH>
__device__ __forceinline__ void add_not_finite(float (&sum)[TILES][COLUMNS / 2], const float (&weights)[TILES][ROWS / 2],
                                               const Rows16<ROWS, WIDTH> &other) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned long long rows = rows_not_finite(other);
#pragma unroll 1
    for (int row = 0; row < ROWS; row++) {
        if (!(rows >> row & 1))
            continue;
        float weight[TILES][2]; // of this row of `other`, which another lane holds
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float held = 0;
#pragma unroll
                for (int n = 0; n < ROWS / 8; n++)
                    held = row / 8 == n ? weights[t][4 * n + 2 * r + row % 2] : held;
                weight[t][r] = __shfl_sync(0xffffffffu, held, lane / 4 * 4 + row % 8 / 2);
            }
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++) {
            const unsigned pair = static_cast<unsigned>(__float_as_int(load_float(other.address(row, n) + lane % 4 * 4)));
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (not_finite(pair) >> 16 * e & 1)
#pragma unroll
                    for (int t = 0; t < TILES; t++)
#pragma unroll
                        for (int r = 0; r < 2; r++)
                            if (weight[t][r] != 0)
                                sum[t][4 * n + 2 * r + e] = fmaf(weight[t][r], to_float(static_cast<Input>(pair >> 16 * e)),
                                                                 sum[t][4 * n + 2 * r + e]);
        }
    }
}
