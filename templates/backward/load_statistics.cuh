//$ include "target/sm_80.cuh"

// Loads a thread's four numbers for 16 queries, [2 h + e]. An ldmatrix whose eight row addresses are equal gives each lane a 4-byte word
// of that row and costs less than a vector load; row_place() gives the order of the numbers.
__device__ __forceinline__ void load_statistics(float (&number)[4], SharedAddress at) {
    unsigned word[4];
    load_matrices_at(word, at + static_cast<unsigned>(threadIdx.x) % 32 / 8 * 16);
#pragma unroll
    for (int i = 0; i < 4; i++)
        number[i] = __int_as_float(static_cast<int>(word[i]));
}
