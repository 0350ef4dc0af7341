//$ needs block_m

// The rows that see the most keys go first, so that no long block is left for the end.
__device__ __forceinline__ QTile q_tile_of_block(const attention_params &p) {
    QTile tile;
    const int block = static_cast<int>(blockIdx.x), row_tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    const int heads = p.batch * p.heads;
    tile.row0 = (row_tiles - 1 - block / heads) * BLOCK_M;
    tile.head = block % heads;
    return tile;
}
