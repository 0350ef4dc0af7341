//$ include "fragment/row_numbers.cuh"

// Stores a row that the cache keeps unchanged.
template <int COLUMNS, int DIM> __device__ __forceinline__ void row_copy(Input *row, const RowPart<COLUMNS, DIM> &x) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int which = 0; which < 2; which++) {
            int column = column_of<COLUMNS, false>(pair_of_lane(i), which);
            if (column < DIM)
                vector_store(row + column, x.vector[i][which]);
        }
}
