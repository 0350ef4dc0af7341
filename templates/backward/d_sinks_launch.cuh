//$ needs row_statistics dependent_launches
//$ if row_statistics
//$ launch attention_d_sinks grid heads block 256 shared 32 dependent params attention_backward_params
//$ else
//$ launch attention_d_sinks grid heads block 256 shared 32 dependent
//$ include "backward/row_dots_launch.cuh"
//$ end
//$ include "expression/formula.cuh"
//$ include "fragment/reduce.cuh"
//$ include "target/sm_90.cuh"

// A sink takes the weight e^(sink - LSE) from every query of its head and contributes no value, so its gradient is the sum of -weight * D.
// One block per head; the order of the sum is fixed.
extern "C" __global__ void __launch_bounds__(256)
    attention_d_sinks(const __grid_constant__ attention_backward_params params) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    if (!params.d_sinks)
        return;
    const attention_params &all = params.forward;
    const int head = blockIdx.x;
    const float sink = tensor_sinks(all, head);
    float sum = 0;
    for (int batch = 0; batch < all.batch; batch++) {
        const attention_params &p = sequence_of(all, batch);
        const float *lse = p.lse + batch * p.lse_batch_stride + head * p.lse_head_stride;
        const float *dots = row_dots(p, batch * p.heads + head);
        for (int query = threadIdx.x; query < p.len_q; query += 256) {
            const float weight = sink == -INFINITY ? 0 : expf(__fsub_rn(sink, lse[query]));
            sum -= weight == 0 ? 0 : weight * dots[row_place(query)]; //$ if row_statistics
            sum -= weight == 0 ? 0 : weight * dots[query];            //$ else
        }
    }
    sum = block_reduce<float, plus>(sum, dynamic_shared<float>());
    if (threadIdx.x == 0)
        params.d_sinks[head] = sum;
}
