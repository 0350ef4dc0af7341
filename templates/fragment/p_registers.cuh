//$ needs head_dim_v bfloat16 p_steps
//$ include "target/wgmma_rs_nn.cuh"
//$ include "fragment/weights.cuh"

__device__ __forceinline__ void publish_weights(const Weights &) {} // each thread holds its own elements of P

// Issues O (64, HEAD_DIM_V) += P V with P in registers; asynchronous.
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const Weights &p, unsigned long long v) {
    wgmma_rs_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(o, p.pairs, v);
}
