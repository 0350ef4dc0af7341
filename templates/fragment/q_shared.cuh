// Q (64, HEAD_DIM) of a unit as operand of S = Q K^T: in shared memory, where it was copied to.
struct Queries {
    unsigned long long first; // descriptor of the first place of Q
};

// S (64, BLOCK_N) = Q K^T; issued, not finished.
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], const Queries &q, int stage, unsigned long long k) {
    wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q.first + stage * (Q_BYTES / 16), k);
}
