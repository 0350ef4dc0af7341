//$ needs block_m

// Q tiles head by head.
__device__ __forceinline__ QTile q_tile_of_block(const attention_params &p) {
    QTile tile;
    const int block = static_cast<int>(blockIdx.x), row_tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    tile.row0 = block % row_tiles * BLOCK_M;
    tile.head = block / row_tiles;
    return tile;
}
