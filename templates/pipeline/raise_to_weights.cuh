//$ include "fragment/sums_in_range.cuh"

// Called when P has outgrown m: takes m from the largest P or, where that is out of the range of fp32, from S, which is recomputed.
__device__ __forceinline__ void raise_outgrown(Consumer &c, bool first) {
    if (within_fp32(c.rows, c.tile_sum)) {
        raise_max_to_weights(c.s, c.rows, c.tile_sum, c.c);
        c.raises.add(c.step);
    } else {
        repeat_softmax(c, first);
    }
}
