//$ needs head_dim_v
//$ include "fragment/scores_from_memory_fp32.cuh"

// P of 16 keys in fp32, and which keys are seen, as exp2_sixteen returns it.
struct Sixteen {
    int key0;
    float weights[8];
    unsigned seen;
};

// Records which of 8 columns of a row of V are NaN: bits 15 and 31 of nan[i] are set for their columns 2 i and 2 i + 1.
__device__ __forceinline__ void find_nan(unsigned (&nan)[4], const Input *row, int column) {
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (column + j < HEAD_DIM_V && row[j] != row[j])
            nan[j / 2] |= j % 2 ? 0x80000000 : 0x8000;
}

// Q, K and V are loaded when they are needed.
struct Operands {
    __device__ __forceinline__ Operands(const Unit &, int) {}
};
struct Values {};
__device__ __forceinline__ Values load_values(const Unit &, int, int) { return {}; }

// Returns P of the 16 keys from key0 on.
__device__ __forceinline__ Sixteen weigh_sixteen(Operands &, const Unit &unit, const Rows &rows, float c, int key0, int,
                                                 bool whole) {
    Sixteen p = {key0};
    scores_from_memory<16>(p.weights, unit, key0);
    p.seen = exp2_sixteen(p.weights, unit, rows, c, key0, whole);
    return p;
}

// O (16, PASS) += P V of 16 keys. True if some row may not see all of them, and some value may not be finite.
__device__ __forceinline__ bool add_sixteen(float (&o)[PASS / 2], const Sixteen &p, Values, const Unit &unit, int first_column, bool whole) {
#pragma unroll
    for (int i = 0; i < 8; i++) // two elements hold the weights of two rows for one key
        if (i % 4 < 2)
#pragma unroll 1
            for (int lane = 0; lane < 4; lane++) {
                const int from = unit.lane / 4 * 4 + lane;
                const unsigned of_key = __shfl_sync(0xffffffffu, p.seen, from) >> i;
                const float weight[2] = {__shfl_sync(0xffffffffu, p.weights[i], from), __shfl_sync(0xffffffffu, p.weights[i + 2], from)};
                const Input *v = value_in_memory(unit, p.key0 + i / 4 * 8 + 2 * lane + i % 2);
#pragma unroll
                for (int j = 0; j < PASS / 2; j++) {
                    const int column = first_column + column_of(unit, j / 4, j % 2);
                    if (column < HEAD_DIM_V && (of_key >> j / 2 % 2 * 2 & 1))
                        o[j] = fmaf(weight[j / 2 % 2], v[column], o[j]);
                }
            }
    return !whole;
}
