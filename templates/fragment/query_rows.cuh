//$ needs block_m row_tiles chunks score dtype

// A warp's rows of Q in shared memory: 16 of each of its units.

// Returns the index of this thread. Addresses computed from it are not kept from round to round.
__device__ __forceinline__ unsigned thread_of_round() { return static_cast<unsigned>(opaque(threadIdx.x)); }

__device__ __forceinline__ int first_row_of_warp(unsigned thread) {
    const unsigned warp = thread / 32;
    return static_cast<int>(warp / 4 * ROW_TILES * 64 + warp % 4 * 16);
}

// Loads Q as operand a of S = Q K^T: 16 columns of the rows of each unit.
__device__ __forceinline__ void load_query_step(unsigned (&a)[ROW_TILES][4], SharedAddress q, int step) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        load_matrices_at(a[r], Rows16<BLOCK_M, CHUNKS>::beyond(q, 64 * r, 2 * step));
}
// Returns the address that this thread passes to ldmatrix for the first of these steps.
__device__ __forceinline__ SharedAddress first_query_step(const Rows16<BLOCK_M, CHUNKS> &q, unsigned thread) {
    return q.address(first_row_of_warp(thread) + thread % 16, thread % 32 / 16);
}
//$ if score != custom_score

// Negates Q for scale < 0: scale Q K^T = |scale| (-Q) K^T, so the largest product always gives the largest score.
__device__ __forceinline__ void negate_queries(Rows16<BLOCK_M, CHUNKS> &q) {
#pragma unroll 1
    for (int r = 0; r < ROW_TILES; r++) {
        unsigned *words = reinterpret_cast<unsigned *>(&q.chunk[(first_row_of_warp(thread_of_round()) + 64 * r) * CHUNKS]);
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * CHUNKS * 4; i += 32)
            words[i] ^= 0x80000000; //$ if dtype == fp32
            words[i] ^= 0x80008000; //$ else
    }
    __syncwarp();
}
//$ end
