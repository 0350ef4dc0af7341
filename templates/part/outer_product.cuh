// Register tiles built up from outer products; all indices are constants once the loops around are unrolled.

__device__ __forceinline__ float element(float4 x, int e) { return e == 0 ? x.x : e == 1 ? x.y : e == 2 ? x.z : x.w; }

// sum[i][column] += a[i][e] * b for the rows i whose distance from the first is more than `hidden`.
//
// Neighbouring columns go through the rows in opposite directions: then each multiplication has an operand in common
// with the one before, and the register file has only two more to deliver, which is what it can do in a cycle.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void add_column(float (&sum)[ROWS][COLUMNS], int column, const float4 (&a)[ROWS], int e,
                                           float b, int hidden = -1) {
#pragma unroll
    for (int step = 0; step < ROWS; step++) {
        const int i = (column + e) % 2 == 0 ? step : ROWS - 1 - step;
        if (LANES_M * i > hidden)
            sum[i][column] = fmaf(element(a[i], e), b, sum[i][column]);
    }
}
