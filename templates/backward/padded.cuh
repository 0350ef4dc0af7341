//$ include "params/attention_backward.h"
//$ include "sequence/padded.cuh"

// Turns the parameters of all sequences into those of one: its number of keys. Its tensors are those of all sequences.
__device__ __forceinline__ attention_backward_params sequence_of(const attention_backward_params &all, int batch) {
    attention_backward_params p = all;
    p.forward = sequence_of(all.forward, batch);
    return p;
}

// Returns how many queries of a head the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.len_q; }
