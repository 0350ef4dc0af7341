//$ needs head_reads pair_reads
//$ include "expression/formula.cuh"
//$ include "backward/gradients.cuh"

// The gradients of the parameters that the score reads. Over all (query, key) pairs whose score f reads an element t:
//
//     dt = sum of P * (dP - D) * df/dt
//
//$ if pair_reads > 0
// Where pairs read elements of their own, each adds its share to its element; the order of these additions varies.
//$ end
//$ if head_reads > 0
// Elements that all pairs of a head share are summed by threads, then by warps, then by a later launch, in a fixed order.
//$ end

//$ code gradients

// Adds the contribution of one pair; d_score = P * (dP - D), 0 for a pair that is not seen. The query and the key exist.
//$ if head_reads > 0
__device__ __forceinline__ void add_pair(const attention_backward_params &params, const attention_params &p, const Where &at, int q,
                                         int k, float s, float d_score, HeadSums &sum) {
//$ else
__device__ __forceinline__ void add_pair(const attention_backward_params &params, const attention_params &p, const Where &at, int q,
                                         int k, float s, float d_score) {
//$ end
    //$ code head_reads
    //$ code pair_reads
}
