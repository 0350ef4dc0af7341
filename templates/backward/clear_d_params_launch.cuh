//$ needs dependent_launches
//$ launch attention_clear_d_params grid 4 * sm_count block 256 shared 0 dependent params attention_backward_params
//$ include "backward/gradients.cuh"
//$ include "target/sm_90.cuh"

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

__device__ __forceinline__ void clear_gradient(const attention_backward_params::param_gradient &of) {
    const long long count = static_cast<long long>(of.size[0]) * of.size[1] * of.size[2] * of.size[3];
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

// Sets the gradients of the parameters that the score reads to 0, since they are sums.
extern "C" __global__ void __launch_bounds__(256)
    attention_clear_d_params(const __grid_constant__ attention_backward_params params) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ code cleared
}
