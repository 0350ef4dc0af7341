//$ needs block_m block_n
//$ let chunk_keys = 1024
//$ include "work/run.cuh"

// Runs that do not depend on the batch: the keys of each sequence are split into chunks of CHUNK_KEYS, counted from its first key.
// A block has one chunk of one Q tile. Blocks are numbered over the largest numbers of Q tiles and chunks that a sequence may have.
struct Plan {
    int workers;
};

__device__ __forceinline__ Plan plan_of(const attention_params &, int blocks) { return {blocks}; }

__device__ __forceinline__ int chunks_of(const attention_params &p) {
    return max(1, (p.len_kv + CHUNK_KEYS - 1) / CHUNK_KEYS);
}

// The run is empty if the sequence has no such Q tile or no such chunk.
__device__ __forceinline__ Start start_of(const attention_params &all, const Plan &, int worker) {
    const int chunks = chunks_of(all), row_tiles = (rows_of_group(all) + BLOCK_M - 1) / BLOCK_M;
    const int chunk = worker % chunks, index = worker / chunks, head = index / row_tiles;
    Tile tile = {head / all.kv_heads, head % all.kv_heads, index % row_tiles * BLOCK_M, row_tiles, 0, 0};
    const attention_params &p = sequence_of(all, tile.batch);
    tile.end = max(1, (p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int first = chunk * (CHUNK_KEYS / BLOCK_N), end = min(first + CHUNK_KEYS / BLOCK_N, tile.end);
    return {tile, {first, tile.row < rows_of_group(p) ? end : first}};
}

// Returns the parts of a Q tile whose first chunk `worker` has.
__device__ __forceinline__ Parts parts_of(const Plan &, const Start &start, int worker) {
    constexpr int TILES = CHUNK_KEYS / BLOCK_N;
    return {worker, (start.tile.end + TILES - 1) / TILES, false};
}

// A block has no other Q tile.
__device__ __forceinline__ Tile next_tile(const attention_params &, const Tile &tile) { return tile; }
