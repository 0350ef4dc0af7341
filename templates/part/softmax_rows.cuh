//$ include "target/sm_90a.cuh"

// The online softmax on accumulators of wgmma. One of them, (64, N) over the 128 threads of a warpgroup: thread t holds,
// of rows 16 (t / 32) + t % 32 / 4 and 8 further down, columns 8 i + 2 (t % 4) and the next, in elements 4 i, 4 i + 1 and
// 4 i + 2, 4 i + 3.

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

// The two rows of a thread: what the softmax has seen of them so far.
struct Rows {
    //$ if score == custom_score
    float max[2];  // m: what scores are taken relative to, as exponents of 2, so that c is 1
    //$ else
    float max[2];  // m: what scores are taken relative to, before scaling
    //$ end
    float sum[2];  // l: this thread's share of the sum of 2^((s - m) c)
    float keep[2]; // what the last tile left of O: 2^((m_before - m) c)
    bool grown;    // some row of the warp has keep != 1
};

__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false}; }

//$ if sinks > 0
// A logit that takes weight and has no value; one of the lanes that share a row counts it.
__device__ __forceinline__ void begin_with_sink(Rows &rows, float sink, bool counts) {
    rows.max[0] = rows.max[1] = sink;
    rows.sum[0] = rows.sum[1] = counts ? 1 : 0;
}

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

// s = 2^((s - m) c), with c = scale log2(e): the exponential as one multiply-add and one instruction.
__device__ __forceinline__ void weigh(float (&s)[BLOCK_N / 2], Rows &rows, float c) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float shift = rows.max[r] == -INFINITY ? 0 : -rows.max[r] * c, even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
            even += s[i] = exp2_approx(fmaf(s[i], c, shift));
            odd += s[i + 1] = exp2_approx(fmaf(s[i + 1], c, shift));
        }
        rows.sum[r] += even + odd;
    }
}

// m' = max(m, max s), to which O and l are scaled. Not `exact`: of every STEP-th group of 8 columns only.
template <int STEP>
__device__ __forceinline__ void raise_max(const float (&s)[BLOCK_N / 2], Rows &rows, float c, bool exact) {
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
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float max = fmaxf(even[r], odd[r]);
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
        rows.keep[r] = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2)); // for now: the tile's maximum
    }
    //$ if rescale != always
    // O follows the maximum only when that grew by more than 2^8: until then weights are at most 2^8 too large, which
    // the sum divides out again, and fp32 has room for.
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(rows.keep[0] - rows.max[0], rows.keep[1] - rows.max[1]) * c <= 8));
    if (rows.grown)
    //$ end
#pragma unroll
        for (int r = 0; r < 2; r++) {
            // keep = 2^((m - m') c). As long as all scores are -INFINITY, 0 takes the place of m'.
            float max = fmaxf(rows.max[r], rows.keep[r]), finite = max == -INFINITY ? 0 : max;
            rows.keep[r] = exp2_approx((rows.max[r] - finite) * c);
            rows.max[r] = max;
            rows.sum[r] *= rows.keep[r];
        }
}

//$ if rescale == from_sum and score == custom_score
// The same, and the weights, for scores that are already less `from`, which is m, or 0 in rows that have no m yet. Their
// maximum is not looked at: weights far above 1 show in l, which then raises m, 2^40 at a time or more.
//$ if keyed > 0
// But an expression may have scores grow from key to key. So the first and the last columns are looked at, where what grows
// steadily is largest.
//$ end
// fp32 and bf16 have room for 2^60 more within one tile; where that is not enough, l is above 2^100, which makes m infinite,
// and the row is repeated. `look`: all scores are looked at, which rows without m need, and m follows them.
__device__ __forceinline__ void softmax_onward(float (&s)[BLOCK_N / 2], Rows &rows, const float (&from)[2], bool look) {
    float up[2] = {0, 0};
    //$ if keyed > 0
#pragma unroll
    for (int r = 0, last = BLOCK_N / 2 - 4; r < 2; r++)
        up[r] = fmaxf(fmaxf(s[2 * r], s[2 * r + 1]), fmaxf(s[last + 2 * r], s[last + 2 * r + 1]));
    //$ end
    if (look)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            up[r] = -INFINITY;
#pragma unroll
            for (int i = 2 * r; i < BLOCK_N / 2; i += 4)
                up[r] = fmaxf(up[r], fmaxf(s[i], s[i + 1]));
        }
    bool high = !(fmaxf(rows.sum[0], rows.sum[1]) <= 0x1p40f) || fmaxf(up[0], up[1]) > 50;
    rows.grown = look || __any_sync(0xffffffffu, high);
    if (rows.grown)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            // m' = from + up, where l counts as a score too;  keep = 2^(m - m'), from the m' that was rounded. As long as
            // all scores are -INFINITY, 0 takes the place of m'.
            float before = rows.max[r], by = before == -INFINITY ? up[r] : fmaxf(up[r], 0.0f);
            if (rows.sum[r] > 1)
                by = rows.sum[r] > 0x1p100f ? INFINITY : fmaxf(by, log2_approx(rows.sum[r]));
            by = fmaxf(by, __shfl_xor_sync(0xffffffffu, by, 1));
            by = fmaxf(by, __shfl_xor_sync(0xffffffffu, by, 2));
            rows.max[r] = from[r] + by;
            float finite = rows.max[r] == -INFINITY ? 0 : rows.max[r];
            rows.keep[r] = exp2_approx(before - finite);
            rows.sum[r] *= rows.keep[r];
#pragma unroll
            for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
                s[i] += from[r] - finite;
                s[i + 1] += from[r] - finite;
            }
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
            even += s[i] = exp2_approx(s[i]);
            odd += s[i + 1] = exp2_approx(s[i + 1]);
        }
        rows.sum[r] += even + odd;
    }
}
//$ elif rescale == from_sum
// The same without looking at the scores, for rows that have an m: weights far above 1 show in l, which then raises m,
// 2^40 at a time or more. fp32 and bf16 have room for 2^60 more within one tile; where that is not enough, l is above
// 2^100, which makes m infinite, and the row is repeated. So is one that has no m yet, because m stays -INFINITY.
__device__ __forceinline__ void follow_sums(Rows &rows, float c) {
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(rows.sum[0], rows.sum[1]) <= 0x1p40f));
    if (rows.grown)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            // m' = m + log2(l) / c,  keep = 2^((m - m') c), from the m' that was rounded
            float sum = fmaxf(rows.sum[r], __shfl_xor_sync(0xffffffffu, rows.sum[r], 1));
            sum = fmaxf(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
            float up = sum > 0x1p100f ? INFINITY : sum > 1 ? log2_approx(sum) : 0, before = rows.max[r];
            rows.max[r] += up * reciprocal_approx(c);
            rows.keep[r] = exp2_approx((before - rows.max[r]) * c);
            rows.sum[r] *= rows.keep[r];
        }
}
//$ end

// O follows m.
__device__ __forceinline__ void rescale(float (&o)[HEAD_DIM_V / 2], const Rows &rows) {
    //$ if rescale != always
    if (rows.grown)
    //$ end
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
