//$ needs kv_scale lanes
//$ include "store/place.cuh"
//$ include "sequence/cached.cuh"
//$ include "sequence/tensor.cuh"
//$ include "fragment/reduce.cuh"
//$ include "fragment/row_numbers.cuh"

template <int COLUMNS, int DIM> __device__ __forceinline__ void numbers_scale(Numbers<COLUMNS, DIM> &x, float factor) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int e = 0; e < 2 * COLUMNS; e++)
            x.value[i][e] *= factor;
}

//$ if kv_scale == token
__device__ __forceinline__ float larger_or_nan(float a, float b) { return a > b || isnan(a) ? a : b; }

// Scales the row so that its largest magnitude becomes the largest number of the cache's type. Readers multiply by
// `scale`, which is 0 for a row of zeros. A number that is not finite makes the whole row NaN.
template <int COLUMNS, int DIM>
__device__ __forceinline__ void scale_row(Numbers<COLUMNS, DIM> &x, const Tensor<float> &scale, Place place, int head) {
    float most = 0;
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
#pragma unroll
        for (int e = 0; e < 2 * COLUMNS; e++)
            most = larger_or_nan(fabsf(x.value[i][e]), most);
    most = lanes_reduce<LANES, float, larger_or_nan>(most);
    if (threadIdx.x % LANES == 0)
        *scale.at(place.block, head, place.row) = most / CACHED_MOST;
    numbers_scale(x, most > 0 ? CACHED_MOST / most : 0.0f);
}
//$ elif kv_scale == head
template <int COLUMNS, int DIM>
__device__ __forceinline__ void scale_row(Numbers<COLUMNS, DIM> &x, const Tensor<float> &scale, Place, int head) {
    numbers_scale(x, 1.0f / *scale.at(0, head, 0));
}
//$ elif kv_scale == tensor
template <int COLUMNS, int DIM>
__device__ __forceinline__ void scale_row(Numbers<COLUMNS, DIM> &x, const Tensor<float> &scale, Place, int) {
    numbers_scale(x, 1.0f / *scale.data);
}
//$ end
