//$ needs columns_v score folded
//$ include "fragment/weight_of_score.cuh"

// The online softmax on accumulators of wgmma. An accumulator is (64, N) over the 128 threads of a warpgroup. Thread t holds
// columns 8 i + 2 (t % 4) and the next: of row 16 (t / 32) + t % 32 / 4 in elements 4 i and 4 i + 1, and of the row 8 further
// down in elements 4 i + 2 and 4 i + 3.

// The softmax state of the two rows of a thread.
struct Rows {
    float max[2];  // m: what scores are taken relative to                 //$ if score == custom_score
    float max[2];  // m: what scores are taken relative to, before scaling //$ else
    float sum[2];  // l: this thread's share of the sum of 2^((s - m) c)
    float keep[2]; // factor of O after the last tile: 2^((m - m') c)
    bool grown;    // some row of the warp has keep != 1
    bool far;      // some row of the warp has an m c whose rounding would change P //$ if not folded
};

__device__ __forceinline__ Rows no_rows() { return {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}}; }

// True if some row of the warp has an m c beyond 4096. Up to there, rounding changes m c by 2^-13 at most.
__device__ __forceinline__ bool is_far(const Rows &rows, float c) {
    return __any_sync(0xffffffffu, fmaxf(fabsf(finite_max(rows.max[0])), fabsf(finite_max(rows.max[1]))) * c > 4096);
}

// Replaces x by its maximum over the four lanes of a row.
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
    rows.far = is_far(rows, c); //$ if not folded
}

// True if some row of the warp has no m yet: no key, or only scores of -INFINITY.
__device__ __forceinline__ bool lacks_max(const Rows &rows) {
    return __any_sync(0xffffffffu, fminf(rows.max[0], rows.max[1]) == -INFINITY);
}

// Rescales O to the new m.
__device__ __forceinline__ void rescale(float (&o)[COLUMNS_V / 2], const Rows &rows) {
    if (rows.grown)
#pragma unroll
        for (int i = 0; i < COLUMNS_V / 2; i++)
            o[i] *= rows.keep[i / 2 % 2];
}
