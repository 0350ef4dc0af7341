//$ needs rows_aligned
//$ include "sequence/element.cuh"

//$ if rows_aligned
// Loads two neighbouring 16-bit elements from `at`, which points to an even column of a row of COLUMNS.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int) {
    return *reinterpret_cast<const unsigned *>(at);
}

// Loads WIDTH elements, 2, 4 or 8, with one load. Their column is a multiple of WIDTH and less than COLUMNS.
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
// Loads two neighbouring 16-bit elements, of any alignment, from `at`, which is column `column` of a row of COLUMNS; 0 past its end.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int column) {
    return (column < COLUMNS ? at[0] : 0) | static_cast<unsigned>(column + 1 < COLUMNS ? at[1] : 0) << 16;
}

// Loads WIDTH elements.
template <int COLUMNS, int WIDTH>
__device__ __forceinline__ void load_columns(unsigned (&pairs)[WIDTH / 2], const Input *at, int column) {
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        pairs[i] = pair_at<COLUMNS>(at + 2 * i, column + 2 * i);
}
//$ end
