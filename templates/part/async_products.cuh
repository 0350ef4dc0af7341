// The two products of attention on the matrix unit, each for one warpgroup's 64 rows: S = Q K^T and O += P V.

//$ if queries_in == q_registers
using Queries = unsigned[Q_STEPS][4];

// Q (64, HEAD_DIM), from shared memory: the operand of 16 columns a step.
__device__ __forceinline__ void load_queries(Queries &q, const Panels<Q_PANELS, 64> &from) {
    int row = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        load_matrices(q[step], &from[step / 4][row][(step % 4 * 2 + threadIdx.x % 32 / 16 ^ row % 8) * 8]);
}

//$ end
// S (64, BLOCK_N) = Q K^T; issued, not finished.
//$ if queries_in == q_registers
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], const Queries &q, unsigned long long k) {
    wgmma_rs_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q, k);
}
//$ else
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], unsigned long long q, unsigned long long k) {
    wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q, k);
}
//$ end

// O (64, HEAD_DIM_V) += P V; issued, not finished.
//$ if weights_in == p_shared
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], unsigned long long p, unsigned long long v) {
    wgmma_ss_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(o, p, v);
}
//$ else
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const Weights &p, unsigned long long v) {
    wgmma_rs_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(o, p, v);
}
//$ end
