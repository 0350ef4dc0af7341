//$ needs block_threads
//$ include "store/row_of_nothing.cuh"

// len_kv = 0: no row has a key.
__device__ __forceinline__ void write_nothing(const attention_params &p) {
#pragma unroll 1
    for (int index = 0; index < p.batch * p.heads; index++)
#pragma unroll 1
        for (int query = blockIdx.x; query < p.len_q; query += gridDim.x)
            write_row_of_nothing<BLOCK_THREADS>(p, index / p.heads, index % p.heads, query, threadIdx.x);
}
