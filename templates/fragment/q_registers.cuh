//$ needs block_n q_panels bfloat16 q_steps
//$ include "target/wgmma_rs_nt.cuh"

// Q (64, d) of a unit as an operand of S = Q K^T: in registers, 16 columns per step.
struct Queries {
    unsigned pairs[Q_STEPS][4];
};

__device__ __forceinline__ void load_queries(Queries &q, const Panels<Q_PANELS, 64> &from) {
    int row = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        load_matrices(q.pairs[step], &from[step / 4][row][(step % 4 * 2 + threadIdx.x % 32 / 16 ^ row % 8) * 8]);
}

// Issues S (64, BLOCK_N) = Q K^T; asynchronous.
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], const Queries &q, int, unsigned long long k) {
    wgmma_rs_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q.pairs, k);
}
