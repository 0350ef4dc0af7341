//$ include "params/attention_backward.h"
//$ include "sequence/dense.cuh"

// All sequences have one length, so the parameters of a kernel hold for each of them.
__device__ __forceinline__ const attention_backward_params &sequence_of(const attention_backward_params &all, int) { return all; }

// Returns how many queries of a head the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.len_q; }
