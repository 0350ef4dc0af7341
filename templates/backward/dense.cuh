//$ include "params/attention_backward.h"

// All sequences have one length, so the parameters of a kernel, or those of the forward pass among them, hold for each.
template <typename Params> __device__ __forceinline__ const Params &sequence_of(const Params &all, int) { return all; }

// Returns how many queries of a head the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.len_q; }
