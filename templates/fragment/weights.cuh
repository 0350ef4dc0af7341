//$ needs block_n bfloat16

// P (64, BLOCK_N) as an operand of O += P V, in registers: its fragments are pairs of elements of S in the same thread.
struct Weights {
    unsigned pairs[BLOCK_N / 16][4];
};

// Packs P of KEYS keys of the tile, from FIRST on.
template <int FIRST = 0, int KEYS = BLOCK_N>
__device__ __forceinline__ void keep_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
#pragma unroll
    for (int i = FIRST / 4; i < (FIRST + KEYS) / 4; i++)
        p.pairs[i / 4][i % 4] = pack<BFLOAT16>(s[2 * i], s[2 * i + 1]);
}
