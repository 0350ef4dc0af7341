//$ include "fragment/sums_in_range.cuh"

// m has been outgrown: it becomes that of the largest P, or where that is not in the range of fp32, of S, which is computed again.
__device__ __forceinline__ void raise_outgrown(Consumer &c, bool first) {
    if (within_fp32(c.rows, c.tile_sum)) {
        raise_max_to_weights(c.s, c.rows, c.tile_sum, c.c);
        c.raises.add(c.step);
    } else {
        repeat_softmax(c, first);
    }
}
