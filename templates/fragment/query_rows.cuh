//$ needs block_m row_tiles chunks score

// A warp's rows of Q in shared memory: 16 of each of its units.

__device__ __forceinline__ int first_row_of_warp() {
    const unsigned warp = static_cast<unsigned>(set_apart(threadIdx.x)) / 32;
    return static_cast<int>(warp / 4 * ROW_TILES * 64 + warp % 4 * 16);
}

// Q as operand a of S = Q K^T: 16 columns of the rows of each unit.
__device__ __forceinline__ void load_query_step(unsigned (&a)[ROW_TILES][4], const Rows16<BLOCK_M, CHUNKS> &q, int first_row,
                                                unsigned lane, int step) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        load_matrices(a[r], q.at(first_row + 64 * r + lane % 16, 2 * step, lane / 16));
}
//$ if score != custom_score

// scale Q K^T = |scale| (-Q) K^T: so the largest score is that of the largest product whatever the sign of scale is.
__device__ __forceinline__ void negate_queries(Rows16<BLOCK_M, CHUNKS> &q) {
#pragma unroll 1
    for (int r = 0; r < ROW_TILES; r++) {
        unsigned *pairs = reinterpret_cast<unsigned *>(&q.chunk[(first_row_of_warp() + 64 * r) * CHUNKS]);
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * CHUNKS * 4; i += 32)
            pairs[i] ^= 0x80008000;
    }
    __syncwarp();
}
//$ end
