//$ needs block_m block_threads tile_rows split_keys
//$ include "store/row_of_nothing.cuh"

// Writes the rows of a Q tile of a sequence without keys.
__device__ __forceinline__ void write_nothing(const attention_params &p, const Tile &tile) {
    //$ if tile_rows > block_m
    if (cluster_rank() > 0)
        return; // the first block of the cluster does it
    //$ end
#pragma unroll 1
    for (int row = 0; row < TILE_ROWS; row++) {
        const Row at = row_of(p, tile, row / 64, row % 64);
        if (at.query < p.len_q)
            write_row_of_nothing<BLOCK_THREADS>(p, tile.batch, at.head, at.query, threadIdx.x);
    }
}

// True if there is something to compute. Otherwise rows without keys have their O and LSE, unless a later launch writes them.
__device__ __forceinline__ bool has_work(const attention_params &p, const Tile &tile) {
    if (tile.query >= p.len_q)
        return false;
    //$ if split_keys > 0
    if (!has_part(p, tile) || (p.splits > 1 && p.len_kv == 0))
        return false; // attention_combine writes the rows that no part has
    //$ end
    if (p.len_kv != 0)
        return true;
    write_nothing(p, tile);
    return false;
}
