//$ needs block_n panels q_panels bfloat16 q_steps

// Recomputes S when P was out of range. Each warp does so by mma.sync for its own 16 rows, so that the warps need not agree:
// Q and K are still in shared memory, and mma.sync has the accumulator layout of wgmma.

// S (16, BLOCK_N) = Q K^T, of the warp's rows of the unit.
__device__ __forceinline__ void multiply_scores_again(float (&s)[BLOCK_N / 2], const Panels<Q_PANELS, 64> &q,
                                                      const Panels<PANELS, BLOCK_N> &k) {
    const int row = warp_index() % 4 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
    const int key = threadIdx.x % 32 / 16 * 8 + threadIdx.x % 8, chunk = threadIdx.x % 16 / 8;
#pragma unroll
    for (float &score : s)
        score = 0;
#pragma unroll 1
    for (int step = 0; step < Q_STEPS; step++) { // of 16 columns
        unsigned a[4];
        load_matrices(a, &q[step / 4][row][(step % 4 * 2 + half ^ row % 8) * 8]);
#pragma unroll
        for (int n = 0; n < BLOCK_N / 16; n++) { // 16 keys
            unsigned b[4];
            load_matrices(b, &k[step / 4][16 * n + key][(step % 4 * 2 + chunk ^ key % 8) * 8]);
            mma<BFLOAT16>(s[8 * n], s[8 * n + 1], s[8 * n + 2], s[8 * n + 3], a, b[0], b[1]);
            mma<BFLOAT16>(s[8 * n + 4], s[8 * n + 5], s[8 * n + 6], s[8 * n + 7], a, b[2], b[3]);
        }
    }
}
