//$ include "params/attention.h"
//$ include "target/any.cuh"

// Bounds of runs of tensor elements, with which the kernel classifies tiles. The table of a tensor
// holds the bounds of every TABLE_RUN elements of its last dimension: (all other dimensions, runs), in the workspace.
constexpr int TABLE_RUN = 64;

template <typename Value> struct Bounds {
    Value least, most;
};

__device__ __forceinline__ Bounds<int> bounds_of(int x) { return {x, x}; }
__device__ __forceinline__ Bounds<float> bounds_of(float x) {
    return x == x ? Bounds<float>{x, x} : Bounds<float>{-INFINITY, INFINITY}; // NaN: nothing is known
}

template <typename Value>
__device__ __forceinline__ Bounds<Value> join_bounds(const Bounds<Value> &a, const Bounds<Value> &b) {
    return {min(a.least, b.least), max(a.most, b.most)};
}
