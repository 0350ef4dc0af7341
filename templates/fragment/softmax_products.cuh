//$ include "fragment/softmax_rows.cuh"

// The softmax of scores that are products before scaling, or results of an expression: the exponents of 2 are (s - m) c.

// Raises m to the maximum of the scores; m stays while the maximum exceeds it by no more than 2^slack.
template <int SIZE> __device__ __forceinline__ void follow_max(const float (&s)[SIZE], Rows &rows, float c, float slack) {
    float even[2], odd[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        even[r] = s[2 * r], odd[r] = s[2 * r + 1];
#pragma unroll
        for (int i = 4; i < SIZE; i += 4)
            even[r] = fmaxf(even[r], s[i + 2 * r]), odd[r] = fmaxf(odd[r], s[i + 2 * r + 1]);
    }
    float higher[2] = {fmaxf(even[0], odd[0]), fmaxf(even[1], odd[1])};
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(higher[0] - rows.max[0], higher[1] - rows.max[1]) * c <= slack));
    if (rows.grown) {
        max_of_row(higher);
        raise_max(rows, higher, c);
    }
}

// Sets `shift`, the summand that subtracts m c from s c. Where m c is `far` from 0, subtracts m from s itself instead, since rounding
// would change P.
template <int SIZE>
__device__ __forceinline__ void take_max(float (&s)[SIZE], const Rows &rows, float c, bool far, float (&shift)[2]) {
    float max[2] = {finite_max(rows.max[0]), finite_max(rows.max[1])};
    shift[0] = -max[0] * c, shift[1] = -max[1] * c;
    if (far) {
#pragma unroll
        for (int i = 0; i < SIZE; i++)
            s[i] = __fsub_rn(s[i], max[i / 2 % 2]); // not contracted: docs/numerics.md
        shift[0] = shift[1] = 0;
    }
}

// P: s = 2^((s - m) c), with one FMA and one ex2 per element. Also computes this thread's row sums.
template <int SIZE>
__device__ __forceinline__ void exp2_scores(float (&s)[SIZE], const Rows &rows, float c, bool far, float (&sum)[2]) {
    float shift[2];
    take_max(s, rows, c, far, shift);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < SIZE; i += 4) {
            even += s[i] = exp2_approx(fmaf(s[i], c, shift[r]));
            odd += s[i + 1] = exp2_approx(fmaf(s[i + 1], c, shift[r]));
        }
        sum[r] = even + odd;
    }
}
