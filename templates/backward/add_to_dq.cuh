//$ needs vector_sums
//$ include "backward/shared_products.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh" if vector_sums

// Adds dQ of 32 queries from `query` on, and a share of the columns, to the sums. The elements that a warp adds at a time are contiguous.
template <int SHARERS, int COUNT>
__device__ __forceinline__ void add_to_dq(const attention_params &p, int index, int query, Share<SHARERS, 2 * COUNT> share,
                                          const float (&dq)[2][COUNT]) {
    const int lane = opaque(static_cast<int>(threadIdx.x)) % 32;
    float *const sums = dq_sums(p, tile_of_query(p, index, query));
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const int first = 64 * share.column_of(i), thread = (query % 64 + 16 * t) * 2 + lane; // of four floats; of 128
            //$ if vector_sums
            add_to_memory(sums + first + 4 * thread, dq[t][4 * i], dq[t][4 * i + 1], dq[t][4 * i + 2], dq[t][4 * i + 3]);
            //$ else
#pragma unroll
            for (int e = 0; e < 4; e++)
                atomicAdd(sums + first + 128 * e + thread, dq[t][4 * i + e]);
            //$ end
        }
}
