//$ needs bfloat16
// sum (16, 16) = own other^T, for rows from `own_row` and `other_row` on. Loads of AHEAD steps of 16 columns are in flight at a time.
template <int DIM, int AHEAD>
__device__ __forceinline__ void multiply_sixteen(float (&sum)[8], const MemoryRows &own, int own_row, const MemoryRows &other,
                                                 int other_row) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32), down = own_row + lane / 4, across = other_row + lane / 4;
#pragma unroll
    for (float &value : sum)
        value = 0;
#pragma unroll(AHEAD)
    for (int first = 0; first < DIM; first += 16) {
        const bool both = first + 8 < DIM;
        const int column = first + lane % 4 * 2;
        const unsigned a[4] = {own.pair(down, column), own.pair(down + 8, column), both ? own.pair(down, column + 8) : 0,
                               both ? own.pair(down + 8, column + 8) : 0};
#pragma unroll
        for (int n = 0; n < 2; n++)
            mma<BFLOAT16>(sum[4 * n], sum[4 * n + 1], sum[4 * n + 2], sum[4 * n + 3], a, other.pair(across + 8 * n, column),
                          both ? other.pair(across + 8 * n, column + 8) : 0);
    }
}
