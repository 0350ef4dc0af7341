//$ needs rows_aligned
//$ include "sequence/element.cuh"

//$ if rows_aligned
// Two neighbouring 16-bit elements `at` column `column`, which is even, of a row of COLUMNS.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int) {
    return *reinterpret_cast<const unsigned *>(at);
}

// WIDTH of them, 2, 4 or 8, `at` a multiple of WIDTH that is less than COLUMNS, by one load.
template <int COLUMNS, int WIDTH> __device__ __forceinline__ void load_columns(unsigned (&pairs)[WIDTH / 2], const Input *at, int) {
    if constexpr (WIDTH == 8) {
        const uint4 x = *reinterpret_cast<const uint4 *>(at);
        pairs[0] = x.x, pairs[1] = x.y, pairs[2] = x.z, pairs[3] = x.w;
    } else if constexpr (WIDTH == 4) {
        const uint2 x = *reinterpret_cast<const uint2 *>(at);
        pairs[0] = x.x, pairs[1] = x.y;
    } else {
        pairs[0] = *reinterpret_cast<const unsigned *>(at);
    }
}
//$ else
// Two neighbouring 16-bit elements `at` column `column` of a row of COLUMNS, of any alignment; 0 behind its end.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int column) {
    return (column < COLUMNS ? at[0] : 0) | static_cast<unsigned>(column + 1 < COLUMNS ? at[1] : 0) << 16;
}

// WIDTH of them.
template <int COLUMNS, int WIDTH>
__device__ __forceinline__ void load_columns(unsigned (&pairs)[WIDTH / 2], const Input *at, int column) {
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        pairs[i] = pair_at<COLUMNS>(at + 2 * i, column + 2 * i);
}
//$ end
