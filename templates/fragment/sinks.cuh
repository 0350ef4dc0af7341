//$ needs score folded
//$ include "fragment/softmax_rows.cuh"

// A sink: a logit that enters l and has no V. In the unit of m: scores before scaling, or scores where the kernel has a score
// expression.
__device__ __forceinline__ float sink_of(const attention_params &p, int head) {
    return tensor_sinks(p, head);                  //$ if score == custom_score
    return tensor_sinks(p, head) / fabsf(p.scale); //$ else
}

// One of the four lanes of a row adds it to l.
__device__ __forceinline__ void begin_with_sink(Rows &rows, float sink, bool counts, float c) {
    rows.max[0] = rows.max[1] = sink;
    rows.sum[0] = rows.sum[1] = counts ? 1 : 0;
    rows.far = is_far(rows, c); //$ if not folded
}
