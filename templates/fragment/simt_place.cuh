//$ needs lanes_n warp_rows

// A warp is LANES_M x LANES_N threads and owns whole rows, so m, l, P and O never leave it. A thread holds THREAD_M rows by
// THREAD_N keys of S and the same rows of O. Its rows lie LANES_M apart, its keys and its chunks of O LANES_N apart: neighbouring
// lanes read neighbouring rows, which lie in different banks because a row is an odd number of chunks.
struct Place {
    int row;  // first row of the thread in the tile; the others are LANES_M apart
    int lane; // its first key in the tile and its first chunk of O; the others are LANES_N apart
};

// Rows alternate between neighbouring lanes. For Q as for K, lanes whose numbers differ only in bit 0 or only in bit 1 then read
// the same address, and a 128-bit load takes two passes instead of four.
__device__ __forceinline__ Place my_place() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return {warp * WARP_ROWS + lane / (2 * LANES_N) * 2 + lane % 2, lane / 2 % LANES_N};
}

// Reductions over the lanes that share rows, whose numbers differ in bit 1 and the following ones.
__device__ __forceinline__ float row_max(float x) {
#pragma unroll
    for (int bit = 2; bit < 2 * LANES_N; bit *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
    return x;
}

__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
    for (int bit = 2; bit < 2 * LANES_N; bit *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, bit);
    return x;
}
