//$ needs panels

// Negates Q for scale < 0: scale Q K^T = |scale| (-Q) K^T, so the largest product always gives the largest score.
__device__ __forceinline__ void negate_queries(Consumer &c) {
    unsigned *pairs = reinterpret_cast<unsigned *>(c.shared.q[c.queries.stage()][c.index]);
#pragma unroll 4
    for (int i = threadIdx.x % 128; i < PANELS * 64 * 32; i += 128)
        pairs[i] ^= 0x80008000;
    fence_async();
    named_barrier_sync(4 + c.index, 128);
}
