//$ include "target/sm_90a.cuh"

// The online softmax on accumulators of wgmma. One of them, (64, N) over the 128 threads of a warpgroup: thread t holds,
// of rows 16 (t / 32) + t % 32 / 4 and 8 further down, columns 8 i + 2 (t % 4) and the next, in elements 4 i, 4 i + 1 and
// 4 i + 2, 4 i + 3.

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

// The two rows of a thread: what the softmax has seen of them so far.
struct Rows {
    //$ if score == custom_score
    float max[2];  // m: what scores are taken relative to
    //$ else
    float max[2];  // m: what scores are taken relative to, before scaling
    //$ end
    float sum[2];  // l: this thread's share of the sum of 2^((s - m) c)
    float keep[2]; // what the last tile left of O: 2^((m_before - m) c)
    bool grown;    // some row of the warp has keep != 1
    //$ if folded == 0
    bool far;      // some row of the warp has an m c in which rounding would move a weight
    //$ end
};

//$ if folded > 0
__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false}; }
//$ else
__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false, false}; }
//$ end

// Which of a thread's columns, 8 i and 8 i + 1 from its first key on, its rows see: bits, whose order is that of the columns.
struct Seen {
    static constexpr int COLUMNS = BLOCK_N / 4, WORDS = (COLUMNS + 31) / 32;
    unsigned bits[2][WORDS];
};

// s = -INFINITY elsewhere. Bits become predicates several at a time.
__device__ __forceinline__ void mask_tile(float (&s)[BLOCK_N / 2], const Seen &seen) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < Seen::COLUMNS; i++)
            if (!(seen.bits[r][i / 32] >> i % 32 & 1))
                s[i / 2 * 4 + 2 * r + i % 2] = -INFINITY;
}

// Keys below `end[row]`, when `key` is the thread's first.
__device__ __forceinline__ Seen seen_below(int key, const int (&end)[2]) {
    Seen seen;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int keys = max(0, end[r] - key), columns = keys / 8 * 2 + min(keys % 8, 2);
#pragma unroll
        for (int first = 0; first < Seen::COLUMNS; first += 32)
            seen.bits[r][first / 32] =
                columns >= first + 32 ? 0xffffffffu : columns > first ? (1u << (columns - first)) - 1 : 0;
    }
    return seen;
}
//$ if intervals

// Keys of [first[row], end[row]).
__device__ __forceinline__ Seen seen_between(int key, const int (&first)[2], const int (&end)[2]) {
    Seen seen = seen_below(key, end), before = seen_below(key, first);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < Seen::WORDS; i++)
            seen.bits[r][i] &= ~before.bits[r][i];
    return seen;
}
//$ end

// What exponents are taken relative to: 0 as long as all scores of the row are -INFINITY.
__device__ __forceinline__ float finite_max(float max) { return max == -INFINITY ? 0 : max; }

//$ if folded == 0
// Does some row of the warp have an m c that is rounded by 2^-13 or more?
__device__ __forceinline__ bool is_far(const Rows &rows, float c) {
    return __any_sync(0xffffffffu, fmaxf(fabsf(finite_max(rows.max[0])), fabsf(finite_max(rows.max[1]))) * c > 4096);
}

//$ end
//$ if sinks > 0
// A logit that takes weight and has no value; one of the lanes that share a row counts it.
__device__ __forceinline__ void begin_with_sink(Rows &rows, float sink, bool counts, float c) {
    rows.max[0] = rows.max[1] = sink;
    rows.sum[0] = rows.sum[1] = counts ? 1 : 0;
    //$ if folded == 0
    rows.far = is_far(rows, c);
    //$ end
}

//$ end
// Over the four lanes of a row.
__device__ __forceinline__ void max_of_row(float (&x)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        x[r] = fmaxf(x[r], __shfl_xor_sync(0xffffffffu, x[r], 1));
        x[r] = fmaxf(x[r], __shfl_xor_sync(0xffffffffu, x[r], 2));
    }
}

// m' = max(m, `higher`), to which l is scaled, and O will be.
__device__ __forceinline__ void raise_max(Rows &rows, const float (&higher)[2], float c) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        // keep = 2^((m - m') c)
        float before = rows.max[r];
        rows.max[r] = fmaxf(before, higher[r]);
        rows.keep[r] = exp2_approx((before - finite_max(rows.max[r])) * c);
        rows.sum[r] *= rows.keep[r];
    }
    //$ if folded == 0
    rows.far = is_far(rows, c);
    //$ end
}

//$ if rescale != always or folded > 0
// Has some row of the warp seen nothing yet, or only scores of -INFINITY?
__device__ __forceinline__ bool lacks_max(const Rows &rows) {
    return __any_sync(0xffffffffu, fminf(rows.max[0], rows.max[1]) == -INFINITY);
}

//$ end
//$ if rescale == from_sum
// Weights of a tile up to 2^12 a thread need no better m. Larger ones may leave the range of the input type, and a key that
// outweighs all others wants a weight of 1, which is not rounded. A row without an m has no range.
__device__ __forceinline__ bool within_range(const Rows &rows, const float (&sum)[2]) {
    bool within = fmaxf(sum[0], sum[1]) <= 0x1p12f && fminf(rows.max[0], rows.max[1]) > -INFINITY; // false of NaN
    return __all_sync(0xffffffffu, within);
}

//$ end
//$ if folded > 0
// m is raised to the maximum of scores that are less `from`, as exponents of 2, or stays until that is more than 2^slack larger;
// they become less m'. Where m' is the maximum, that is taken from them as it was found: m', rounded at the size of the scores, may
// be far from it.
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
//$ else
// m is raised to the maximum of the scores, or stays until that is more than 2^slack larger. Not `exact`: of those in every STEP-th
// group of 8 columns.
template <int STEP>
__device__ __forceinline__ void follow_max(const float (&s)[BLOCK_N / 2], Rows &rows, float c, bool exact, float slack) {
    float even[2], odd[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        even[r] = s[2 * r], odd[r] = s[2 * r + 1];
#pragma unroll
        for (int i = 4 * STEP; i < BLOCK_N / 2; i += 4 * STEP)
            even[r] = fmaxf(even[r], s[i + 2 * r]), odd[r] = fmaxf(odd[r], s[i + 2 * r + 1]);
    }
    if (exact)
#pragma unroll
        for (int i = 4; i < BLOCK_N / 2; i += 4)
            if (i % (4 * STEP) != 0)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    even[r] = fmaxf(even[r], s[i + 2 * r]), odd[r] = fmaxf(odd[r], s[i + 2 * r + 1]);
    float higher[2] = {fmaxf(even[0], odd[0]), fmaxf(even[1], odd[1])};
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(higher[0] - rows.max[0], higher[1] - rows.max[1]) * c <= slack));
    if (rows.grown) {
        max_of_row(higher);
        raise_max(rows, higher, c);
    }
}

// What is added to s c to make it less m; scores far from 0 are less m from now on, lest rounding move their weights.
__device__ __forceinline__ void take_max(float (&s)[BLOCK_N / 2], const Rows &rows, float c, float (&shift)[2]) {
    float max[2] = {finite_max(rows.max[0]), finite_max(rows.max[1])};
    shift[0] = -max[0] * c, shift[1] = -max[1] * c;
    if (rows.far) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++)
            s[i] = __fsub_rn(s[i], max[i / 2 % 2]); // not contracted: docs/numerics.md
        shift[0] = shift[1] = 0;
    }
}

// s = 2^((s - m) c): the exponential as one multiply-add and one instruction; and this thread's sums.
__device__ __forceinline__ void weigh(float (&s)[BLOCK_N / 2], const Rows &rows, float c, float (&sum)[2]) {
    float shift[2];
    take_max(s, rows, c, shift);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
            even += s[i] = exp2_approx(fmaf(s[i], c, shift[r]));
            odd += s[i + 1] = exp2_approx(fmaf(s[i + 1], c, shift[r]));
        }
        sum[r] = even + odd;
    }
}
//$ end
//$ if folded > 0

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
//$ end

// O follows m.
__device__ __forceinline__ void rescale(float (&o)[HEAD_DIM_V / 2], const Rows &rows) {
    if (rows.grown)
#pragma unroll
        for (int i = 0; i < HEAD_DIM_V / 2; i++)
            o[i] *= rows.keep[i / 2 % 2];
}

//$ if weights_in == p_shared
// P as operand of the next product, in shared memory: rows of 16 bytes, swizzled.
__device__ __forceinline__ void store_weights(const float (&s)[BLOCK_N / 2], Panels<P_PANELS, 64> &p) {
    int row = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i += 8) // 16 columns
        store_matrices(&p[i / 32][row][(i / 8 % 4 * 2 + threadIdx.x % 32 / 16 ^ row % 8) * 8],
                       pack<BFLOAT16>(s[i], s[i + 1]), pack<BFLOAT16>(s[i + 2], s[i + 3]),
                       pack<BFLOAT16>(s[i + 4], s[i + 5]), pack<BFLOAT16>(s[i + 6], s[i + 7]));
}
//$ else
using Weights = unsigned[BLOCK_N / 16][4];

// P as operand of the next product: its fragments are pairs of S's, in the same thread.
__device__ __forceinline__ void pack_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; i++)
        p[i / 4][i % 4] = pack<BFLOAT16>(s[2 * i], s[2 * i + 1]);
}
//$ end
