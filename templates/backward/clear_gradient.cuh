//$ include "backward/gradient_layout.cuh"

__device__ __forceinline__ void clear_gradient(const attention_backward_params::param_gradient &of) {
    const long long count = count_of(of);
    const long long first = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x, step = static_cast<long long>(gridDim.x) * 256;
    if (is_contiguous(of)) {
#pragma unroll 4
        for (long long i = first; i < count; i += step)
            of.data[i] = 0;
        return;
    }
    for (long long i = first; i < count; i += step) { // four divisions per element
        float *to = of.data;
        long long left = i;
#pragma unroll
        for (int d = 3; d >= 0; d--) {
            to += left % of.size[d] * of.stride[d];
            left /= of.size[d];
        }
        *to = 0;
    }
}
