//$ needs mask score sinks block_m threads shared_bytes
//$ include "sequence/head.cuh"
//$ launch attention_flash_tiled grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_bytes

// A block computes one Q tile of one head.
struct QTile {
    int row0; // its first query
    int head; // over all batches
    Where where; //$ if mask == custom_mask or score == custom_score or sinks > 0
    int q_first, q_last; // positions of its first and last query //$ if mask == custom_mask or score == custom_score
};

__device__ __forceinline__ QTile q_tile_of_block(const attention_params &p) {
    QTile tile;
    const int block = static_cast<int>(blockIdx.x), row_tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    //$ if mask == causal
    const int heads = p.batch * p.heads; // the rows that see the most keys go first, so that no long block is left for the end
    tile.row0 = (row_tiles - 1 - block / heads) * BLOCK_M;
    tile.head = block % heads;
    //$ else
    tile.row0 = block % row_tiles * BLOCK_M;
    tile.head = block / row_tiles;
    //$ end
    return tile;
}
//$ if mask == custom_mask or score == custom_score or sinks > 0

// What expressions refer to. Called as late as possible, for ptxas then needs fewer registers.
__device__ __forceinline__ void locate(const attention_params &p, QTile &tile) {
    tile.where = where_is(p, tile.head);
    //$ if mask == custom_mask or score == custom_score
    tile.q_first = position_of(p, tile.row0);
    tile.q_last = position_of(p, min(tile.row0 + BLOCK_M, p.len_q) - 1);
    //$ end
}
//$ end
