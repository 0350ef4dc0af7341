//$ include "fragment/softmax_rows.cuh"

// Of scores that are made as exponents of 2, less something close to their maximum.

// m is raised to the maximum of scores that are less `from`, as exponents of 2; they become less m'.
__device__ __forceinline__ void follow_max(float (&s)[BLOCK_N / 2], Rows &rows, const float (&from)[2], float slack) {
    float higher[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
        for (int i = 4 + 2 * r; i < BLOCK_N / 2; i += 4)
            even = fmaxf(even, s[i]), odd = fmaxf(odd, s[i + 1]);
        higher[r] = fmaf(fmaxf(even, odd), LN_2, from[r]);
    }
    raise_max(rows, higher, LOG2_E, slack);
    const float less[2] = {(from[0] - finite_max(rows.max[0])) * LOG2_E, (from[1] - finite_max(rows.max[1])) * LOG2_E};
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        s[i] += less[i / 2 % 2];
}

// s = 2^s, of exponents less m; and this thread's sums.
__device__ __forceinline__ void weigh_exponents(float (&s)[BLOCK_N / 2], float (&sum)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
            even += s[i] = exp2_approx(s[i]);
            odd += s[i + 1] = exp2_approx(s[i + 1]);
        }
        sum[r] = even + odd;
    }
}
