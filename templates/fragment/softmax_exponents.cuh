//$ needs block_n
//$ include "fragment/score_rest.cuh"
//$ include "fragment/softmax_rows.cuh"

// The softmax of scores that are exponents of 2, minus a value close to their maximum.

// Raises m to the maximum of the scores, which are exponents of 2 minus the first rest of their row; m stays while the maximum exceeds it
// by no more than 2^slack. Then subtracts m' from the scores. Where m' is the new maximum, subtracts the maximum as found instead of m':
// m' is rounded at the magnitude of the original scores, and may be far from it.
template <int SIZE>
__device__ __forceinline__ void follow_max(float (&s)[SIZE], Rows &rows, const Unit &unit, int tile_n, float slack) {
    const int row = unit.row(), key = tile_n * BLOCK_N;
    const float from[2] = {first_rest(unit.p, unit.where, unit.position(row), key),
                           first_rest(unit.p, unit.where, unit.position(row + 8), key)};
    float top[2], more[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
        for (int i = 4 + 2 * r; i < SIZE; i += 4)
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
    for (int i = 0; i < SIZE; i++)
        s[i] += more[i / 2 % 2];
}

// P: s = 2^s, for exponents from which m has been subtracted. Also computes this thread's row sums.
template <int SIZE> __device__ __forceinline__ void exp2_scores(float (&s)[SIZE], float (&sum)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < SIZE; i += 4) {
            even += s[i] = exp2_approx(s[i]);
            odd += s[i + 1] = exp2_approx(s[i + 1]);
        }
        sum[r] = even + odd;
    }
}
