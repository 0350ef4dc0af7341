//$ needs dtype head_dim head_dim_v block_n chunks chunks_v
//$ include "load/copy_tile_ahead.cuh"

// Copies a tile of K, or of V.
__device__ __forceinline__ void copy_keys(const KeyCopies &copies, Rows16<BLOCK_N, CHUNKS> &to, int tile_n) {
    copy_tile<HEAD_DIM>(to, copies.keys(tile_n), copies.piece);
}
__device__ __forceinline__ void copy_values(const KeyCopies &copies, Rows16<BLOCK_N, CHUNKS_V> &to, int tile_n) {
    copy_tile<HEAD_DIM_V>(to, copies.values(tile_n), copies.piece);
}
//$ if dtype != fp32

// Finishes a tile of K, or of V, whose copies are complete and visible to all threads.
__device__ __forceinline__ void settle_keys(const KeyCopies &copies, Rows16<BLOCK_N, CHUNKS> &k, int tile_n) {
    settle_tile<HEAD_DIM>(k, copies.keys(tile_n), copies.piece);
}
__device__ __forceinline__ void settle_values(const KeyCopies &copies, Rows16<BLOCK_N, CHUNKS_V> &v, int tile_n) {
    settle_tile<HEAD_DIM_V>(v, copies.values(tile_n), copies.piece);
}
//$ end
