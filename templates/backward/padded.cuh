//$ include "params/attention_backward.h"
//$ include "sequence/padded.cuh"

// What a kernel is told of all sequences -> what holds for one: the number of its keys. Its tensors are those of all.
__device__ __forceinline__ attention_backward_params sequence_of(const attention_backward_params &all, int batch) {
    attention_backward_params p = all;
    p.forward = sequence_of(all.forward, batch);
    return p;
}

// Queries of a head that the workspace has room for.
__device__ __forceinline__ int most_queries(const attention_params &p) { return p.len_q; }
