//$ needs algorithm head_reads pair_reads head_sums head_part_rows threads
//$ include "expression/formula.cuh"
//$ include "backward/row_dots_launch.cuh"

// The gradients of what the score reads: over all pairs of a query and a key whose score f reads an element t,
//
//     dt = sum of P * (dP - D) * df/dt
//
//$ if pair_reads > 0
// Where pairs read elements of their own, each adds its share to its element; the order of these sums varies.
//$ end
//$ if head_reads > 0
// What all pairs of a head share is summed by threads, then by warps, and by a launch that follows, in an order that does not vary.
//$ end

//$ code gradients

//$ if head_reads > 0
// Sums of the warps that work on one head of so many queries, for each read: so many.
__device__ __forceinline__ int head_parts(int queries) {
    return (queries + HEAD_PART_ROWS - 1) / HEAD_PART_ROWS * (THREADS / 32);
}

// entry = read * batch * heads + index
__device__ __forceinline__ float *head_sums_of(const attention_params &p, long long entry) {
    const long long indices = static_cast<long long>(p.batch) * p.heads;
    return row_lse2(p, indices) + entry * head_parts(most_queries(p)); //$ if algorithm == flash_mma
    return row_dots(p, indices) + entry * head_parts(most_queries(p)); //$ else
}

// What the block number `block` of a head has summed.
__device__ __forceinline__ void store_head_sums(const attention_params &p, const float (&sum)[HEAD_SUMS], long long index,
                                                int block) {
#pragma unroll
    for (int read = 0; read < HEAD_SUMS; read++) {
        const float of_warp = lanes_sum<32>(sum[read]);
        if (threadIdx.x % 32 == 0)
            head_sums_of(p, static_cast<long long>(read) * p.batch * p.heads + index)[block * (THREADS / 32) + threadIdx.x / 32] =
                of_warp;
    }
}

//$ end
// What one pair adds; d_score = P * (dP - D), 0 of a pair that is not seen.
//$ if head_reads > 0
__device__ __forceinline__ void add_pair(const attention_backward_params &params, const attention_params &p, const Where &at, int q,
                                         int k, float s, float d_score, float (&sum)[HEAD_SUMS]) {
//$ else
__device__ __forceinline__ void add_pair(const attention_backward_params &params, const attention_params &p, const Where &at, int q,
                                         int k, float s, float d_score) {
//$ end
    if (d_score == 0) // also where the slope is infinite
        return;
    //$ code head_reads
    //$ code pair_reads
}
