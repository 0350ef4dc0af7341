//$ include "fragment/softmax_rows.cuh"

// A logit that takes weight and has no value, in units of what m is taken of: scores before scaling, or the scores where an
// expression makes them.
__device__ __forceinline__ float sink_of(const attention_params &p, int head) {
    //$ if score == custom_score
    return tensor_sinks(p, head);
    //$ else
    return tensor_sinks(p, head) / fabsf(p.scale);
    //$ end
}

// One of the lanes that share a row counts it.
__device__ __forceinline__ void begin_with_sink(Rows &rows, float sink, bool counts) {
    rows.max[0] = rows.max[1] = sink;
    rows.sum[0] = rows.sum[1] = counts ? 1 : 0;
}
