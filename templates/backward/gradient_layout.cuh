//$ include "backward/gradients.cuh"

// True if the elements are contiguous.
__device__ __forceinline__ bool is_contiguous(const attention_backward_params::param_gradient &of) {
    long long stride = 1;
#pragma unroll
    for (int d = 3; d >= 0; d--) {
        if (of.size[d] != 1 && of.stride[d] != stride)
            return false;
        stride *= of.size[d];
    }
    return true;
}

__device__ __forceinline__ long long count_of(const attention_backward_params::param_gradient &of) {
    return static_cast<long long>(of.size[0]) * of.size[1] * of.size[2] * of.size[3];
}
