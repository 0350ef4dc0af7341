//$ needs lanes half rope
//$ include "sequence/element.cuh"
//$ include "load/vector.cuh"

// A row of a head, DIM elements, distributed over LANES lanes: a lane holds pairs of vectors of COLUMNS elements, as they are in memory
// (RowPart) or as floats (Numbers). Two elements that are rotated together are in one pair.

template <int COLUMNS, int DIM> constexpr int PAIRS = (DIM + 2 * COLUMNS - 1) / (2 * COLUMNS);

template <int COLUMNS, int DIM> struct RowPart {
    static constexpr int COUNT = (PAIRS<COLUMNS, DIM> + LANES - 1) / LANES;
    Vector<Input, COLUMNS> vector[COUNT][2];
};

template <int COLUMNS, int DIM> struct Numbers {
    static constexpr int COUNT = RowPart<COLUMNS, DIM>::COUNT;
    float value[COUNT][2 * COLUMNS];
};

__device__ __forceinline__ int pair_of_lane(int i) { return static_cast<int>(threadIdx.x) % LANES + i * LANES; }

// Returns the column where a vector of a pair begins; DIM or more past the end of the row.
template <int COLUMNS, bool ROTATED> __device__ __forceinline__ int column_of(int pair, int which) {
    //$ if rope == halves
    if (ROTATED && pair < HALF / COLUMNS)
        return pair * COLUMNS + which * HALF;
    //$ end
    return (2 * pair + which) * COLUMNS;
}

template <int COLUMNS, int DIM, bool ROTATED> __device__ __forceinline__ RowPart<COLUMNS, DIM> row_load(const Input *row) {
    RowPart<COLUMNS, DIM> x;
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int which = 0; which < 2; which++) {
            int column = column_of<COLUMNS, ROTATED>(pair_of_lane(i), which);
            x.vector[i][which] = column < DIM ? vector_load<COLUMNS>(row + column) : Vector<Input, COLUMNS>{};
        }
    return x;
}

template <int COLUMNS, int DIM> __device__ __forceinline__ Numbers<COLUMNS, DIM> numbers_of(const RowPart<COLUMNS, DIM> &x) {
    Numbers<COLUMNS, DIM> numbers;
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int e = 0; e < 2 * COLUMNS; e++)
            numbers.value[i][e] = vector_get(x.vector[i][e / COLUMNS], e % COLUMNS);
    return numbers;
}

// Stores them as elements of another type, which element_of makes from a float.
template <bool ROTATED, typename Element, Element element_of(float), int COLUMNS, int DIM>
__device__ __forceinline__ void numbers_store(Element *row, const Numbers<COLUMNS, DIM> &x) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int which = 0; which < 2; which++) {
            int column = column_of<COLUMNS, ROTATED>(pair_of_lane(i), which);
            Vector<Element, COLUMNS> vector;
#pragma unroll
            for (int e = 0; e < COLUMNS; e++)
                vector_set(vector, e, bits_of(element_of(x.value[i][which * COLUMNS + e])));
            if (column < DIM)
                vector_store(row + column, vector);
        }
}
