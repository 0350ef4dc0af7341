//$ needs score folded split_keys
//$ include "fragment/softmax_rows.cuh"
//$ include "fragment/unit.cuh"

// A sink: a logit that enters l and has no V. It is in the unit of m: scores before scaling, or scores where the kernel has a score
// expression.
__device__ __forceinline__ float sink_of(const attention_params &p, int head) {
    return tensor_sinks(p, head);                  //$ if score == custom_score
    return tensor_sinks(p, head) / fabsf(p.scale); //$ else
}

// One of the four lanes of a row adds it to l.
__device__ __forceinline__ void begin_with_sink(Rows &rows, const Unit &unit, float c) {
    //$ if split_keys > 0
    if (unit.tile.split != 0)
        return; // the first part of the keys includes it
    //$ end
    rows.max[0] = rows.max[1] = sink_of(unit.p, unit.tile.head);
    rows.sum[0] = rows.sum[1] = unit.lane % 4 == 0 ? 1 : 0;
    rows.far = is_far(rows, c); //$ if not folded
}
