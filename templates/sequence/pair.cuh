//$ needs rows_aligned
//$ include "sequence/element.cuh"

//$ if rows_aligned
// Two neighbouring 16-bit elements `at` column `column`, which is even, of a row of COLUMNS.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int) {
    return *reinterpret_cast<const unsigned *>(at);
}
//$ else
// Two neighbouring 16-bit elements `at` column `column` of a row of COLUMNS, of any alignment; 0 behind its end.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *at, int column) {
    return (column < COLUMNS ? at[0] : 0) | static_cast<unsigned>(column + 1 < COLUMNS ? at[1] : 0) << 16;
}
//$ end
