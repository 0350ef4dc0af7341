//$ needs algorithm block_n tile_rows units layout dependent_launches
//$ launch attention_tile_map grid min((batch * heads * ((len_q + tile_rows - 1) / tile_rows) + 3) / 4, 16 * sm_count) block 128 shared 0 dependent
//$ workspace 4 * batch * heads * ((len_q + tile_rows - 1) / tile_rows) * (units + 1) * (6 + (len_kv + 32 * block_n - 1) / (32 * block_n))
//$ include "expression/formula.cuh"
//$ include "target/sm_90.cuh"

// The K/V tiles that each Q tile needs, for masks without a closed form. A launch before the attention kernel
// classifies 32 tiles at a time for each unit of 64 rows. The workspace holds, for each Q tile, one line per unit
// and one line for the whole tile. A line begins with the start of its walk over the needed tiles (walk/bitmap.cuh):

struct MapLine {
    int unseen, left, after; // of the tiles that any unit needs, from the last to the first: those before the first one that this
                             // unit needs, those from there to its last one, and those after that; `left` is at least 1
    int word;                // index of the word of needed tiles with the first of those `left`, ...
    unsigned bits, full;     // ... that word without the tiles before it, and its tiles that all queries of the unit see in full

    // One bit per K/V tile. In the line of a unit, 1 = all its queries see all keys; in that of the whole tile, 1 = needed.
    __device__ __forceinline__ unsigned *tiles() { return reinterpret_cast<unsigned *>(this + 1); }
};
static_assert(sizeof(MapLine) == 24, "as in the workspace directive");

__device__ __forceinline__ int map_words(const attention_params &p) { return (p.len_kv + 32 * BLOCK_N - 1) / (32 * BLOCK_N); }
//$ if layout == dense
__device__ __forceinline__ int map_line_words(const attention_params &p) { return 6 + map_words(p); }
//$ else
__device__ __forceinline__ int map_line_words(const attention_params &p) { // of the longest sequence
    return 6 + (p.max_len_kv + 32 * BLOCK_N - 1) / (32 * BLOCK_N);
}
//$ end

// Returns the line of a unit, or of the whole tile if `unit` is UNITS; `tile` is counted over (batch, head, tile).
__device__ __forceinline__ MapLine *map_line(const attention_params &p, long long tile, int unit) {
    return reinterpret_cast<MapLine *>(static_cast<unsigned *>(p.workspace) +
                                       (tile * (UNITS + 1) + unit) * map_line_words(p));
}

//$ if algorithm == flash_async and layout == dense
extern "C" __global__ void __launch_bounds__(128) attention_tile_map(const __grid_constant__ attention_tma_params params) {
    const attention_params &p = params.attention;
    //$ elif algorithm == flash_async
extern "C" __global__ void __launch_bounds__(128) attention_tile_map(const __grid_constant__ attention_tma_params params) {
    const attention_params &all = params.attention;
    //$ elif layout == dense
extern "C" __global__ void __launch_bounds__(128) attention_tile_map(const __grid_constant__ attention_params p) {
    //$ else
extern "C" __global__ void __launch_bounds__(128) attention_tile_map(const __grid_constant__ attention_params all) {
    //$ end
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ if layout == dense
    const int tiles = (p.len_q + TILE_ROWS - 1) / TILE_ROWS, lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = blockIdx.x * 4 + threadIdx.x / 32; row < p.batch * p.heads * tiles; row += gridDim.x * 4) {
        const Where at = where_is(p, row / tiles);
        const int query = row % tiles * TILE_ROWS;
        //$ else
    const int tiles = (all.len_q + TILE_ROWS - 1) / TILE_ROWS, lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = blockIdx.x * 4 + threadIdx.x / 32; row < all.batch * all.heads * tiles; row += gridDim.x * 4) {
        const Where at = where_is(all, row / tiles);
        const attention_params p = sequence_of(all, at.b);
        const int query = row % tiles * TILE_ROWS;
        if (query >= p.len_q || p.len_kv == 0)
            continue; // the attention kernel has nothing to do there
        //$ end
        MapLine line = {0, 0, -1, 0, 0, 0}, *to = map_line(p, row, min(lane, UNITS)); // lane i has line i
        int total = 0, upto = 0;
#pragma unroll 1
        for (int word = 0; word < map_words(p); word++) {
            const int key0 = (word * 32 + lane) * BLOCK_N;
            unsigned needed = 0, mine = 0, full = 0;
#pragma unroll 1
            for (int unit = 0; unit < UNITS; unit++) {
                const int first = query + unit * 64, end = min(first + 64, p.len_q);
                const int q_first = position_of(p, min(first, p.len_q - 1)), q_last = position_of(p, end - 1);
                const Keys keys = keys_of(p, at, q_first, q_last);
                const int k_first = max(key0, keys.first), k_last = min(key0 + BLOCK_N, keys.end) - 1;
                const bool some = k_first <= k_last && some_seen(p, at, q_first, q_last, k_first, k_last);
                const bool all = some && is_full<BLOCK_N>(p, at, q_first, q_last, keys, key0);
                const unsigned some_bits = __ballot_sync(0xffffffffu, some), all_bits = __ballot_sync(0xffffffffu, all);
                needed |= some_bits;
                if (lane == unit)
                    mine = some_bits, full = all_bits;
            }
            if (lane == UNITS)
                mine = full = needed;
            if (lane <= UNITS)
                to->tiles()[word] = full;
            if (mine != 0) {
                if (line.after < 0)
                    line.after = total + __popc(needed & ((mine & -mine) - 1));
                line.word = word;
                line.full = full;
                line.bits = needed & 0xffffffffu >> __clz(static_cast<int>(mine));
                upto = total + __popc(line.bits);
            }
            total += __popc(needed);
        }
        line.unseen = total - upto;
        line.left = upto - line.after;
        const int last_word = __shfl_sync(0xffffffffu, line.word, UNITS);
        const unsigned last_bits = __shfl_sync(0xffffffffu, line.bits, UNITS);
        if (line.after < 0) // sees nothing: walks the last needed tile, or tile 0 if none is needed
            line = {0, 1, max(0, total - 1), last_word, max(last_bits, 1u), 0};
        if (lane <= UNITS)
            *to = line;
    }
}
