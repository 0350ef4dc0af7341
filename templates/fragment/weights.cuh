//$ needs block_n bfloat16

// P (64, BLOCK_N) as operand of O += P V: in registers, where its fragments are pairs of S's, in the same thread.
struct Weights {
    unsigned pairs[BLOCK_N / 16][4];
};

__device__ __forceinline__ void keep_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; i++)
        p.pairs[i / 4][i % 4] = pack<BFLOAT16>(s[2 * i], s[2 * i + 1]);
}
