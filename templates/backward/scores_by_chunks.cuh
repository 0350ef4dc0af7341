//$ needs bfloat16
// sum (16, 16) = own other^T, for rows from `own_row` and `other_row` on. Each lane loads eight neighbouring elements of a row, which are
// its operands of two products: both operands have the columns in the same other order. Loads of 32 columns are in flight at a time:
// with more, registers spill in rows of 192 columns.
template <int DIM, int>
__device__ __forceinline__ void multiply_sixteen(float (&sum)[8], const MemoryRows &own, int own_row, const MemoryRows &other,
                                                 int other_row) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32), down = own_row + lane / 4, across = other_row + lane / 4;
#pragma unroll
    for (float &value : sum)
        value = 0;
#pragma unroll 1
    for (int first = 0; first < DIM; first += 32) {
        const int column = first + lane % 4 * 8;
        const bool there = DIM % 32 == 0 || column < DIM;
        const uint4 zero = make_uint4(0, 0, 0, 0);
        const uint4 a0 = there ? own.eight(down, column) : zero, a8 = there ? own.eight(down + 8, column) : zero;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const uint4 b = there ? other.eight(across + 8 * n, column) : zero;
            const unsigned first_a[4] = {a0.x, a8.x, a0.y, a8.y}, second_a[4] = {a0.z, a8.z, a0.w, a8.w};
            mma<BFLOAT16>(sum[4 * n], sum[4 * n + 1], sum[4 * n + 2], sum[4 * n + 3], first_a, b.x, b.y);
            mma<BFLOAT16>(sum[4 * n], sum[4 * n + 1], sum[4 * n + 2], sum[4 * n + 3], second_a, b.z, b.w);
        }
    }
}
