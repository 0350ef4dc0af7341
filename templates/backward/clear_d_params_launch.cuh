//$ needs dependent_launches
//$ launch attention_clear_d_params grid 4 * sm_count block 256 shared 0 dependent
//$ include "backward/gradients.cuh"
//$ include "target/sm_90.cuh"

__device__ __forceinline__ void clear_gradient(const attention_backward_params::param_gradient &of) {
    const long long count = static_cast<long long>(of.size[0]) * of.size[1] * of.size[2] * of.size[3];
    for (long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x; i < count; i += gridDim.x * 256) {
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

// The gradients of what the score reads are sums, and begin with 0.
extern "C" __global__ void __launch_bounds__(256)
    attention_clear_d_params(const __grid_constant__ attention_backward_params params) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ code cleared
}
