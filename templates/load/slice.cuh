//$ needs lanes
//$ include "sequence/element.cuh"
//$ include "fragment/reduce.cuh"

// A row of DIM numbers spread over the LANES lanes that share it: lane j holds elements j, j + LANES, j + 2 LANES, ...,
// so neighbouring lanes touch neighbouring addresses. Places past the end hold 0.

template <int DIM> struct Slice {
    static constexpr int COUNT = (DIM + LANES - 1) / LANES;
    float value[COUNT];
};

__device__ __forceinline__ int slice_place(int i) { return static_cast<int>(threadIdx.x) % LANES + i * LANES; }

template <int DIM> __device__ __forceinline__ Slice<DIM> slice_zero() { return {}; }

template <int DIM, typename Element> __device__ __forceinline__ Slice<DIM> slice_load(const Element *row) {
    Slice<DIM> x;
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        x.value[i] = slice_place(i) < DIM ? to_float(row[slice_place(i)]) : 0.0f;
    return x;
}

template <int DIM> __device__ __forceinline__ void slice_store(Output *row, const Slice<DIM> &x) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        if (slice_place(i) < DIM)
            row[slice_place(i)] = to_output(x.value[i]);
}

// The same for rows of floats, which are kept in shared memory or in the workspace.
template <int DIM> __device__ __forceinline__ Slice<DIM> slice_load_float(const float *row) {
    Slice<DIM> x;
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        x.value[i] = slice_place(i) < DIM ? row[slice_place(i)] : 0.0f;
    return x;
}

template <int DIM> __device__ __forceinline__ void slice_store_float(float *row, const Slice<DIM> &x) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        if (slice_place(i) < DIM)
            row[slice_place(i)] = x.value[i];
}

// Returns the sum of a * b over the whole row, with the same bits in every lane.
template <int DIM> __device__ __forceinline__ float slice_dot(const Slice<DIM> &a, const Slice<DIM> &b) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < a.COUNT; i++)
        sum = fmaf(a.value[i], b.value[i], sum);
    return lanes_sum<LANES>(sum);
}

// sum = sum * keep + weight * x
template <int DIM>
__device__ __forceinline__ void slice_add(Slice<DIM> &sum, float keep, float weight, const Slice<DIM> &x) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        sum.value[i] = fmaf(weight, x.value[i], sum.value[i] * keep);
}
