//$ needs head_dim_v algorithm layout dependent_launches
//$ launch attention_row_dots grid (batch * heads * len_q + 3) / 4 block 128 shared 0 dependent
//$ include "backward/gradients.cuh"
//$ include "fragment/reduce.cuh"
//$ include "target/sm_90.cuh"

// D = row sum of dO * O, minus dLSE: one number per query, at the start of the workspace. The row sum equals that of P * dP, which
// the derivative of the softmax subtracts from every dP.
//$ if algorithm == flash_mma
// LSE in base 2 follows these numbers; it is +INFINITY for a query that sees no key, which makes every weight 0.
//$ end

__device__ __forceinline__ float *row_dots(const attention_params &p, long long index) {
    return static_cast<float *>(p.workspace) + index * most_queries(p);
}

//$ if algorithm == flash_mma
__device__ __forceinline__ float *row_lse2(const attention_params &p, long long index) {
    return row_dots(p, static_cast<long long>(p.batch) * p.heads + index);
}

//$ end
// One warp per row.
extern "C" __global__ void __launch_bounds__(128)
    attention_row_dots(const __grid_constant__ attention_backward_params all) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const long long row = static_cast<long long>(blockIdx.x) * 4 + threadIdx.x / 32; // index of (batch, head, query)
    if (row >= static_cast<long long>(all.forward.batch) * all.forward.heads * all.forward.len_q)
        return;
    const long long index = row / all.forward.len_q, query = row % all.forward.len_q;
    const attention_backward_params &p = sequence_of(all, static_cast<int>(index / all.forward.heads));
    //$ if layout == ragged
    if (query >= p.forward.len_q)
        return;
    //$ end
    const HeadGradients head = gradients_at(p, index);
    const Input *o = head.o + query * p.forward.o_row_stride, *d_o = head.d_o + query * p.d_o_row_stride;
    float sum = 0;
#pragma unroll
    for (int d = threadIdx.x % 32; d < HEAD_DIM_V; d += 32)
        sum = fmaf(to_float(d_o[d]), to_float(o[d]), sum);
    sum = lanes_sum<32>(sum);
    if (threadIdx.x % 32 == 0)
        row_dots(p.forward, 0)[row] = head.d_lse ? sum - head.d_lse[query] : sum;
    //$ if algorithm == flash_mma
    if (threadIdx.x % 32 == 0) {
        const float lse = head_at(p.forward, index).lse[query];
        row_lse2(p.forward, 0)[row] = lse == -INFINITY ? INFINITY : lse * 1.44269504f;
    }
    //$ end
}
