//$ needs columns_v score rescale folded dropout bfloat16
//$ include "target/any.cuh"

// The online softmax on accumulators of wgmma. One of them, (64, N) over the 128 threads of a warpgroup: thread t holds,
// of rows 16 (t / 32) + t % 32 / 4 and 8 further down, columns 8 i + 2 (t % 4) and the next, in elements 4 i, 4 i + 1 and
// 4 i + 2, 4 i + 3.

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

// The softmax state of the two rows of a thread.
struct Rows {
    //$ if score == custom_score
    float max[2];  // m: what scores are taken relative to
    //$ else
    float max[2];  // m: what scores are taken relative to, before scaling
    //$ end
    float sum[2];  // l: this thread's share of the sum of 2^((s - m) c)
    float keep[2]; // factor of O after the last tile: 2^((m - m') c)
    bool grown;    // some row of the warp has keep != 1
    //$ if not folded
    bool far;      // some row of the warp has an m c whose rounding would change P
    //$ end
};

//$ if folded
__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false}; }
//$ else
__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false, false}; }
//$ end

// The m to subtract: 0 while all scores of the row are -INFINITY.
__device__ __forceinline__ float finite_max(float max) { return max == -INFINITY ? 0 : max; }

//$ if not folded
// Does some row of the warp have an m c that is rounded by 2^-13 or more?
__device__ __forceinline__ bool is_far(const Rows &rows, float c) {
    return __any_sync(0xffffffffu, fmaxf(fabsf(finite_max(rows.max[0])), fabsf(finite_max(rows.max[1]))) * c > 4096);
}

//$ end
// The maximum over the four lanes of a row.
__device__ __forceinline__ void max_of_row(float (&x)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        x[r] = fmaxf(x[r], __shfl_xor_sync(0xffffffffu, x[r], 1));
        x[r] = fmaxf(x[r], __shfl_xor_sync(0xffffffffu, x[r], 2));
    }
}

// m' = max(m, `higher`). Rescales l; O is rescaled later.
__device__ __forceinline__ void raise_max(Rows &rows, const float (&higher)[2], float c) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        // keep = 2^((m - m') c)
        float before = rows.max[r];
        rows.max[r] = fmaxf(before, higher[r]);
        rows.keep[r] = exp2_approx((before - finite_max(rows.max[r])) * c);
        rows.sum[r] *= rows.keep[r];
    }
    //$ if not folded
    rows.far = is_far(rows, c);
    //$ end
}

// Has some row of the warp no m yet: no key, or only scores of -INFINITY?
__device__ __forceinline__ bool lacks_max(const Rows &rows) {
    return __any_sync(0xffffffffu, fminf(rows.max[0], rows.max[1]) == -INFINITY);
}

//$ if rescale == from_sum
// The largest sum of P that needs no new m. Where a key outweighs all others its P should be 1, which is exact;
//$ if bfloat16
// at 2^20 others still count.
constexpr float USUAL_SUM = 0x1p20f;
//$ else
// and larger P may overflow fp16.
constexpr float USUAL_SUM = 0x1p12f;
//$ end

// Are all sums of P of a tile at most `most`? Not of a row without an m.
__device__ __forceinline__ bool within_range(const Rows &rows, const float (&sum)[2], float most) {
    bool within = fmaxf(sum[0], sum[1]) <= most && fminf(rows.max[0], rows.max[1]) > -INFINITY;
    return __all_sync(0xffffffffu, within);
}

//$ if dropout == 0
// Up to this sum P has not left the range of fp32.
constexpr float MOST_SUM = 0x1p100f;

// P has outgrown m, but not fp32: takes P and l relative to the largest P of each row that exceeds 1, and m' = m + log2(P) / c.
// O is rescaled later. The largest P becomes 1, as it does where m is the maximum.
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
    //$ if not folded
    rows.far = is_far(rows, c);
    //$ end
}

//$ end
//$ end
// Rescales O to the new m.
__device__ __forceinline__ void rescale(float (&o)[COLUMNS_V / 2], const Rows &rows) {
    if (rows.grown)
#pragma unroll
        for (int i = 0; i < COLUMNS_V / 2; i++)
            o[i] *= rows.keep[i / 2 % 2];
}
