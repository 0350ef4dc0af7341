// Called when P has outgrown m: recomputes S and takes m from it. P lacks the dropped weights, and the largest may be among them.
__device__ __forceinline__ void raise_outgrown(Consumer &c, bool first) { repeat_softmax(c, first); }
