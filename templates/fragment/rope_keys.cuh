//$ needs block_n
//$ include "sequence/new_tokens.cuh"
//$ include "fragment/rope_shared_row.cuh"
//$ include "load/rows_by_warp.cuh"

// Rotates the new rows of a K tile that has arrived in a stage of the warp. `key`: the first key of the tile.
__device__ __forceinline__ void rotate_new_keys(const attention_params &all, const attention_params &p, KeyStage &stage, int key) {
    const int first = max(0, keys_before(p) - key), end = min(BLOCK_N, p.len_kv - key);
    if (first >= end)
        return;
#pragma unroll 1
    for (int row = first; row < end; row++)
        rotate_row(all, stage.k, row, key + row);
    __syncwarp(); // all lanes see them
}
