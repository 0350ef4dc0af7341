//$ needs block_n
//$ include "fragment/softmax_rows.cuh"

// Of scores that are made as exponents of 2, less something close to their maximum.

// m is raised to the maximum of scores that are less `from`, as exponents of 2, or stays until that is more than 2^slack larger;
// they become less m'. Where m' is the maximum, that is taken from them as it was found: m', rounded at the size of the
// scores, may be far from it.
__device__ __forceinline__ void follow_max(float (&s)[BLOCK_N / 2], Rows &rows, const float (&from)[2], float slack) {
    float top[2], more[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
        for (int i = 4 + 2 * r; i < BLOCK_N / 2; i += 4)
            even = fmaxf(even, s[i]), odd = fmaxf(odd, s[i + 1]);
        top[r] = fmaxf(even, odd);
        more[r] = (from[r] - finite_max(rows.max[r])) * LOG2_E;
    }
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(top[0] + more[0], top[1] + more[1]) <= slack)) || lacks_max(rows);
    if (rows.grown) {
        max_of_row(top);
        const float higher[2] = {fmaf(top[0], LN_2, from[0]), fmaf(top[1], LN_2, from[1])};
        raise_max(rows, higher, LOG2_E);
#pragma unroll
        for (int r = 0; r < 2; r++)
            more[r] = top[r] > -INFINITY && higher[r] == rows.max[r] ? -top[r]
                                                                     : (from[r] - finite_max(rows.max[r])) * LOG2_E;
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        s[i] += more[i / 2 % 2];
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
