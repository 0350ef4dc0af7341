//$ include "expression/formula.cuh"
//$ include "work/run.cuh"

// Returns the keys that the rows of a Q tile, of all heads of a group, see: none outside [first, end), all within
// [full_first, full_end), which may be empty. To be called by all lanes of a warp, each of which evaluates other heads.
__device__ __forceinline__ Keys keys_of_tile(const attention_params &p, const Tile &tile) {
    const int group = heads_of_group(p);
    const int q_first = position_of(p, first_query(p, tile)), q_last = position_of(p, last_query(p, tile));
    Keys all = {p.len_kv, 0, 0, p.len_kv};
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < group; i += 32) {
        const Keys keys = keys_of(p, {tile.batch, tile.kv_head * group + i, tile.kv_head}, q_first, q_last);
        all = {min(all.first, keys.first), max(all.end, keys.end), max(all.full_first, keys.full_first),
               min(all.full_end, keys.full_end)};
    }
    return {__reduce_min_sync(0xffffffffu, all.first), __reduce_max_sync(0xffffffffu, all.end),
            __reduce_max_sync(0xffffffffu, all.full_first), __reduce_min_sync(0xffffffffu, all.full_end)};
}
