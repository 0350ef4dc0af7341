//$ needs thread_m thread_n thread_v
//$ include "target/any.cuh"

constexpr float LOG2_E = 1.44269504f; // e^x = 2^(x log2(e)), applied to differences: a score times this may be infinite

// What a thread keeps of its rows between K/V tiles.
struct Rows {
    float o[THREAD_M][4 * THREAD_V]; // not divided by l yet
    float m[THREAD_M];               // largest score of the row
    float l[THREAD_M];               // sum of e^(s - m) over the thread's own keys; the lanes add theirs up at the end
};

// m' = max(m, row maxima of S),  P = e^(S - m'),  l = e^(m - m') l + row sums of P,  O = e^(m - m') O. P takes the place of S.
__device__ __forceinline__ void online_softmax(float (&s)[THREAD_M][THREAD_N], Rows &rows) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        const float before = rows.m[i];
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            rows.m[i] = fmaxf(rows.m[i], s[i][j]);
        rows.m[i] = row_max(rows.m[i]);
        const float shift = rows.m[i] == -INFINITY ? 0 : rows.m[i]; // until the row sees a key, P = e^-inf = 0
        const float shrink = exp2_approx((before - shift) * LOG2_E);
        rows.l[i] *= shrink;
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            rows.l[i] += s[i][j] = exp2_approx(__fsub_rn(s[i][j], shift) * LOG2_E);
#pragma unroll
        for (int c = 0; c < 4 * THREAD_V; c++)
            rows.o[i][c] *= shrink;
    }
}
