//$ needs dependent_launches
//$ launch attention_clear_d_params grid 4 * sm_count block 256 shared 0 dependent params attention_backward_params
//$ include "backward/clear_gradient.cuh"
//$ include "target/sm_90.cuh"

// Sets the gradients of the parameters that the score reads to 0, since they are sums.
extern "C" __global__ void __launch_bounds__(256)
    attention_clear_d_params(const __grid_constant__ attention_backward_params params) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ code cleared
}
