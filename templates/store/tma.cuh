//$ needs head_dim_v bfloat16_out

// Writes a unit's rows of O, divided by l, to the buffer of its Q, in the TMA swizzle; TMA stores them from there.
__device__ __forceinline__ void store_rows(const Consumer &c, const Unit &, int stage, const float (&scale)[2]) {
    named_barrier_sync(4 + c.index, 128); // all MMAs of the warpgroup have read Q
    int line = warp_index() % 4 * 16 + c.unit.lane % 16;
#pragma unroll
    for (int i = 0; i < HEAD_DIM_V / 2; i += 8) { // 16 columns: two chunks of 16 bytes
        int chunk = i / 4 % 8 + c.unit.lane / 16, j = i + 4 < HEAD_DIM_V / 2 ? i + 4 : i;
        store_matrices(&c.shared.q[stage][c.index][i / 32][line][(chunk ^ line % 8) * 8],
                       pack<BFLOAT16_OUT>(c.o[i] * scale[0], c.o[i + 1] * scale[0]),
                       pack<BFLOAT16_OUT>(c.o[i + 2] * scale[1], c.o[i + 3] * scale[1]),
                       j > i ? pack<BFLOAT16_OUT>(c.o[j] * scale[0], c.o[j + 1] * scale[0]) : 0,
                       j > i ? pack<BFLOAT16_OUT>(c.o[j + 2] * scale[1], c.o[j + 3] * scale[1]) : 0);
    }
}

// Stores columns `column` and `column` + 1 of row `line`.
__device__ __forceinline__ void store_pair(const Consumer &c, const Unit &, int stage, int line, int column, float low,
                                           float high) {
    *reinterpret_cast<unsigned *>(&c.shared.q[stage][c.index][column / 64][line][(column / 8 ^ line) % 8 * 8 + column % 8]) =
        pack<BFLOAT16_OUT>(low, high);
}

// Hands over the buffer, once this thread's rows are in it.
__device__ __forceinline__ void hand_over_rows(const Consumer &c, int stage) {
    fence_async();
    barrier_arrive(&c.shared.q_empty[stage][c.index]);
}
