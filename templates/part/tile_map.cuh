//$ launch attention_tile_map grid min((batch * heads * ((len_q + tile_rows - 1) / tile_rows) + 3) / 4, 16 * sm_count) block 128 shared 0
//$ workspace 4 * batch * heads * ((len_q + tile_rows - 1) / tile_rows) * (1 + 2 * ((len_kv + 32 * block_n - 1) / (32 * block_n)))
//$ include "part/formula.cuh"

// Which tiles of keys each tile of queries needs, where no closed form says it: judged before the kernel proper, 32 tiles
// at a time. In the workspace, for each tile of queries: how many; a bit for each tile of keys, 1 = needed; another, 1 =
// all queries see all its keys.

__device__ __forceinline__ int map_words(const attention_params &p) { return (p.len_kv + 32 * BLOCK_N - 1) / (32 * BLOCK_N); }

// Of tile number `tile` of queries, counted over (batch, head, tile).
__device__ __forceinline__ unsigned *map_row(const attention_params &p, long long tile) {
    return static_cast<unsigned *>(p.workspace) + tile * (1 + 2 * map_words(p));
}

extern "C" __global__ void __launch_bounds__(128) attention_tile_map(const __grid_constant__ attention_tma_params params) {
    const attention_params &p = params.attention;
    const int tiles = (p.len_q + TILE_ROWS - 1) / TILE_ROWS, words = map_words(p), lane = static_cast<int>(threadIdx.x) % 32;
    for (long long row = blockIdx.x * 4ll + threadIdx.x / 32; row < 1ll * p.batch * p.heads * tiles; row += gridDim.x * 4ll) {
        const Where at = where_is(p, row / tiles);
        const int query = static_cast<int>(row % tiles) * TILE_ROWS;
        const int q_first = position_of(p, query), q_last = position_of(p, min(query + TILE_ROWS, p.len_q) - 1);
        const Keys keys = keys_of(p, at, q_first, q_last);
        unsigned *map = map_row(p, row), count = 0;
        for (int word = 0; word < words; word++) {
            const int key0 = (word * 32 + lane) * BLOCK_N, first = max(key0, keys.first), last = min(key0 + BLOCK_N, keys.end) - 1;
            const bool some = first <= last && some_seen(p, at, q_first, q_last, first, last);
            const bool all = some && is_full<BLOCK_N>(p, at, q_first, q_last, keys, key0);
            const unsigned needed = __ballot_sync(0xffffffffu, some), full = __ballot_sync(0xffffffffu, all);
            if (lane == 0) {
                map[1 + word] = needed;
                map[1 + words + word] = full;
            }
            count += __popc(needed);
        }
        if (lane == 0)
            map[0] = count;
    }
}
