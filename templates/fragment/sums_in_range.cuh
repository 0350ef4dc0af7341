//$ needs bfloat16 folded
//$ include "fragment/softmax_rows.cuh"

// The row sums of P show whether P has outgrown m.

// The largest row sum of P that needs no new m. Where a key outweighs all others, its P should be 1, which is exact;
constexpr float USUAL_SUM = 0x1p20f; // at 2^20 others still count     //$ if bfloat16
constexpr float USUAL_SUM = 0x1p12f; // and larger P may overflow fp16 //$ else

// True if all row sums of P of a tile are at most `most`. False if some row has no m.
__device__ __forceinline__ bool within_range(const Rows &rows, const float (&sum)[2], float most) {
    bool within = fmaxf(sum[0], sum[1]) <= most && fminf(rows.max[0], rows.max[1]) > -INFINITY;
    return __all_sync(0xffffffffu, within);
}
// True if P is within the range of fp32.
__device__ __forceinline__ bool within_fp32(const Rows &rows, const float (&sum)[2]) { return within_range(rows, sum, 0x1p100f); }

// Called when P has outgrown m, but not fp32: makes P and l relative to the largest P of each row that exceeds 1, and sets
// m' = m + log2(P) / c. O is rescaled later. The largest P becomes 1, as it does where m is the maximum.
template <int SIZE>
__device__ __forceinline__ void raise_max_to_weights(float (&weights)[SIZE], Rows &rows, float (&sum)[2], float c) {
    float top[2] = {1, 1};
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        top[i / 2 % 2] = fmaxf(top[i / 2 % 2], weights[i]);
    max_of_row(top);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        rows.keep[r] = reciprocal_approx(top[r]);
        rows.max[r] += log2_approx(top[r]) * reciprocal_approx(c);
        rows.sum[r] *= rows.keep[r];
        sum[r] *= rows.keep[r];
    }
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        weights[i] *= rows.keep[i / 2 % 2];
    rows.grown = true;
    rows.far = is_far(rows, c); //$ if not folded
}
