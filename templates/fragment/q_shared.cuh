//$ needs block_n q_bytes bfloat16 q_steps
//$ include "target/wgmma_ss_nt.cuh"

// Q (64, d) of a unit as an operand of S = Q K^T: in shared memory, where TMA has loaded it.
struct Queries {
    unsigned long long first; // matrix descriptor of the first buffer of Q
};

// Issues S (64, BLOCK_N) = Q K^T; asynchronous.
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], const Queries &q, int stage, unsigned long long k) {
    wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q.first + stage * (Q_BYTES / 16), k);
}
