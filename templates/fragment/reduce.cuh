// Reductions over the threads that share a row; each thread receives the result. The order is fixed, so equal inputs give equal
// bits.

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); } // of a number and a NaN: the number
__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ float shuffle_xor(float x, unsigned lanes, int step) {
    return __shfl_xor_sync(lanes, x, step);
}

// Reduces over COUNT neighbouring lanes of a warp (a power of two). A butterfly: after steps 1, 2, 4, ... each lane has the
// result of its pair, its four, its eight, ... Groups of one warp may run different numbers of reductions, so each passes
// the mask of its own lanes.
template <int COUNT, typename Value, Value join(Value, Value)> __device__ __forceinline__ Value lanes_reduce(Value x) {
    unsigned group = COUNT == 32 ? 0xffffffffu : ((1u << COUNT % 32) - 1) << threadIdx.x % 32 / COUNT * COUNT;
#pragma unroll
    for (int step = 1; step < COUNT; step *= 2)
        x = join(x, shuffle_xor(x, group, step));
    return x;
}

template <int COUNT> __device__ __forceinline__ float lanes_max(float x) {
    return lanes_reduce<COUNT, float, larger>(x);
}
template <int COUNT> __device__ __forceinline__ float lanes_sum(float x) { return lanes_reduce<COUNT, float, plus>(x); }

// Reduces over all threads of the block. partial: shared memory, one value per warp; free again on return.
template <typename Value, Value join(Value, Value)> __device__ Value block_reduce(Value x, Value *partial) {
    x = lanes_reduce<32, Value, join>(x);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    for (int warp = 1; warp < static_cast<int>(blockDim.x) / 32; warp++)
        x = join(x, partial[warp]);
    __syncthreads(); // all threads have read `partial`: it may be overwritten
    return x;
}
