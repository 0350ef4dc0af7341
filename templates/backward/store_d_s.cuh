//$ needs d_s_of_keys products_within_step step_m
//$ include "target/sm_90_store_transposed.cuh" if not d_s_of_keys

//$ if d_s_of_keys
// Stores dS^T of 64 keys and the queries of a step, of which d_s has the operands, to shared memory.
__device__ __forceinline__ void store_d_s(Panels<STEP_M / 64, 64> &to, const unsigned (&d_s)[STEP_M / 16][4]) {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    const int row = thread / 32 * 16 + lane % 16;
    const int chunk = opaque(lane / 16 ^ lane % 8); // keeps the compiler from holding the addresses of all chunks from step to step
#pragma unroll
    for (int i = 0; i < STEP_M / 16; i++)
        store_matrices(&to[i / 4][row][(2 * i % 8 ^ chunk) * 8], d_s[i][0], d_s[i][1], d_s[i][2], d_s[i][3]);
}
//$ else
// Returns where this lane stores dS (STEP_M, 64 keys) in shared memory: a row of 8 keys, of which matrices in the layout of the operands
// of dS^T are transposes.
__device__ __forceinline__ unsigned short *d_s_place(Panels<STEP_M / 64, 64> &to) {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    return &to[0][lane / 16 * 8 + lane % 8][(thread / 32 * 2 + lane % 16 / 8 ^ lane % 8) * 8];
}

// Stores dS of queries 16 j to 16 j + 15. `place`: that of the first 16.
__device__ __forceinline__ void store_queries_of_d_s(unsigned short *place, int j, const unsigned (&d_s)[4]) {
    store_matrices_transposed(place + 16 * 64 * j, d_s[0], d_s[1], d_s[2], d_s[3]);
}
//$ if not products_within_step

// Stores dS of all queries of a step.
__device__ __forceinline__ void store_d_s(Panels<STEP_M / 64, 64> &to, const unsigned (&d_s)[STEP_M / 16][4]) {
    unsigned short *const place = d_s_place(to);
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
        store_queries_of_d_s(place, j, d_s[j]);
}
//$ end
//$ end
