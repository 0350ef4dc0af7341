// Register tiles as sums of outer products. Every index is a constant once the loops around are unrolled.

__device__ __forceinline__ float element(float4 x, int e) { return e == 0 ? x.x : e == 1 ? x.y : e == 2 ? x.z : x.w; }

// sum[i][column] += a[i][e] * b, but only for the rows with STEP * i > hidden.
//
// The register file delivers two operands a cycle and a multiplication needs three: one has to be the one before's. So
// b stays for a whole column, and neighbouring columns go through the rows in opposite directions to keep a[i] between.
template <int STEP, int ROWS, int COLUMNS>
__device__ __forceinline__ void add_column(float (&sum)[ROWS][COLUMNS], int column, const float4 (&a)[ROWS], int e,
                                           float b, int hidden = -1) {
#pragma unroll
    for (int step = 0; step < ROWS; step++) {
        const int i = (column + e) % 2 == 0 ? step : ROWS - 1 - step;
        if (STEP * i > hidden)
            sum[i][column] = fmaf(element(a[i], e), b, sum[i][column]);
    }
}
//$ if mask == custom_mask

// The same, but only for rows whose a is not below 0; NaN is not.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void add_seen(float (&sum)[ROWS][COLUMNS], int column, const float4 (&a)[ROWS], int e, float b) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (!(element(a[i], e) < 0))
            sum[i][column] = fmaf(element(a[i], e), b, sum[i][column]);
}
//$ end
