//$ needs algorithm head_sums head_part_rows threads
//$ include "backward/row_dots_launch.cuh"

// A thread's sum for each read that all pairs of a head share.
using HeadSums = float[HEAD_SUMS];

// Returns how many sums, one per warp, each read has in a head of `queries` queries.
__device__ __forceinline__ int head_parts(int queries) {
    return (queries + HEAD_PART_ROWS - 1) / HEAD_PART_ROWS * (THREADS / 32);
}

// entry = read * batch * heads + index
__device__ __forceinline__ float *head_sums_of(const attention_params &p, long long entry) {
    const long long indices = static_cast<long long>(p.batch) * p.heads;
    return row_lse2(p, indices) + entry * head_parts(most_queries(p)); //$ if algorithm == flash_mma
    return row_dots(p, indices) + entry * head_parts(most_queries(p)); //$ else
}

// Stores the sums of the head's block number `block`.
__device__ __forceinline__ void store_head_sums(const attention_params &p, const HeadSums &sum, long long index,
                                                int block) {
#pragma unroll
    for (int read = 0; read < HEAD_SUMS; read++) {
        const float of_warp = lanes_sum<32>(sum[read]);
        if (threadIdx.x % 32 == 0)
            head_sums_of(p, static_cast<long long>(read) * p.batch * p.heads + index)[block * (THREADS / 32) + threadIdx.x / 32] =
                of_warp;
    }
}
