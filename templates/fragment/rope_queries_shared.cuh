//$ needs block_m warps
//$ include "sequence/new_tokens.cuh"
//$ include "fragment/rope_shared_row.cuh"
//$ include "load/queries_in_shared.cuh"

// Rotates Q of a Q tile, each row by the position of its query. Each warp rotates some of the rows.
__device__ __forceinline__ void rotate_queries(const attention_params &all, const attention_params &p, const Tile &tile, Queries &q) {
#pragma unroll 1
    for (int row = warp_index(); row < BLOCK_M; row += WARPS)
        rotate_row(all, q.rows, row, keys_before(p) + row_of(p, tile, row).query);
    __syncthreads(); // all warps see them
}
