//$ needs block_threads
//$ include "store/row_of_nothing.cuh"

// Writes O and LSE of sequences without keys. A block takes some of the sequences, and a warp takes one row of O at a time.
__device__ __forceinline__ void write_nothing(const attention_params &all) {
#pragma unroll 1
    for (int batch = blockIdx.x; batch < all.batch; batch += gridDim.x) {
        const attention_params p = sequence_of(all, batch);
        if (p.len_kv > 0)
            continue;
#pragma unroll 1
        for (int row = warp_index(); row < p.heads * p.len_q; row += BLOCK_THREADS / 32)
            write_row_of_nothing<32>(p, batch, row % p.heads, row / p.heads, threadIdx.x % 32);
    }
}
