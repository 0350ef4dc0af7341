//$ needs head_dim_v block_n p_panels bfloat16 p_steps
//$ include "target/wgmma_ss_nn.cuh"

// P (64, BLOCK_N) as an operand of O += P V: in shared memory, in rows of 16 bytes, swizzled.
struct Weights {
    Panels<P_PANELS, 64> *panels;
    int index; // of the consumer warpgroup
};

__device__ __forceinline__ void keep_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
    int row = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i += 8) // 16 columns
        store_matrices(&(*p.panels)[i / 32][row][(i / 8 % 4 * 2 + threadIdx.x % 32 / 16 ^ row % 8) * 8],
                       pack<BFLOAT16>(s[i], s[i + 1]), pack<BFLOAT16>(s[i + 2], s[i + 3]),
                       pack<BFLOAT16>(s[i + 4], s[i + 5]), pack<BFLOAT16>(s[i + 6], s[i + 7]));
}

// Makes P visible to the wgmmas of the warpgroup.
__device__ __forceinline__ void publish_weights(const Weights &p) {
    fence_async();
    named_barrier_sync(4 + p.index, 128);
}

// Issues O (64, HEAD_DIM_V) += P V; asynchronous.
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const Weights &p, unsigned long long v) {
    wgmma_ss_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(o, matrix_descriptor(*p.panels, 0), v);
}
