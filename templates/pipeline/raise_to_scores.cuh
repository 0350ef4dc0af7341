// m has been outgrown: it becomes that of S, which is computed again. P lacks what was dropped, which may be the largest.
__device__ __forceinline__ void raise_outgrown(Consumer &c, bool first) { repeat_softmax(c, first); }
