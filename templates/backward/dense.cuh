//$ include "params/attention_backward.h"
//$ include "sequence/dense.cuh"

// Sequences of one length: what a kernel is told holds for each of them.
__device__ __forceinline__ const attention_backward_params &sequence_of(const attention_backward_params &all, int) { return all; }

// Queries of a head that the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.len_q; }
