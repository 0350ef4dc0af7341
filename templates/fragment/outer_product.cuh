// Register tiles as sums of outer products. Every index is a constant after the surrounding loops are unrolled.

__device__ __forceinline__ float element(float4 x, int e) { return e == 0 ? x.x : e == 1 ? x.y : e == 2 ? x.z : x.w; }

// sum[i][column] += a[i][e] * b, but only for the rows with STEP * i > hidden.
//
// The register file delivers two operands a cycle and an FMA needs three, so one operand should be reused from the previous FMA.
// b is reused for a whole column, and neighbouring columns visit the rows in opposite directions, which reuses a[i] between them.
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
