//$ include "params/attention.h"

// Sequences of one length: what a kernel is told holds for each of them.
__device__ __forceinline__ const attention_params &sequence_of(const attention_params &all, int) { return all; }
