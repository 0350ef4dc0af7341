//$ needs head_dim_v block_n bfloat16 p_steps

// P (64, BLOCK_N) as operand of O += P V: in registers, where each thread's fragments of P are its pairs of S.
struct Weights {
    unsigned pairs[BLOCK_N / 16][4];
};

__device__ __forceinline__ void keep_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; i++)
        p.pairs[i / 4][i % 4] = pack<BFLOAT16>(s[2 * i], s[2 * i + 1]);
}

__device__ __forceinline__ void publish_weights(const Weights &) {} // each thread holds its own elements of P

// O (64, HEAD_DIM_V) += P V; issued, asynchronous.
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const Weights &p, unsigned long long v) {
    wgmma_rs_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(o, p.pairs, v);
}
