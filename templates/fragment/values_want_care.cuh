//$ needs dtype head_dim_v mask algorithm layout page_size block_n block_m
//$ include "sequence/pair.cuh"
//$ include "fragment/not_finite.cuh" if dtype != fp32

// True if an element of V of the keys first .. end - 1 is not finite. Each lane checks 8 columns at a time.
__device__ __forceinline__ bool has_not_finite(const attention_params &p, const Tile &tile, int first, int end) {
    constexpr int EIGHTS = (HEAD_DIM_V + 7) / 8;
    const Input *v = static_cast<const Input *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride; //$ if page_size == 0
    const Input *v = static_cast<const Input *>(p.v) + tile.kv_head * p.v_head_stride;                                 //$ else
    bool found = false;
#pragma unroll(BLOCK_M == 256 ? 1 : 4) // four consumers have no register left
    for (int i = threadIdx.x % 32; i < (end - first) * EIGHTS; i += 32) {
        const int key = first + i / EIGHTS, column = i % EIGHTS * 8;
        const Input *row = v + key * p.v_row_stride;                                //$ if page_size == 0
        const Input *row = v + paged_row(p, key, p.v_batch_stride, p.v_row_stride); //$ else
        //$ if dtype == fp32
#pragma unroll
        for (int j = 0; j < 8; j++)
            found |= column + j < HEAD_DIM_V && !(fabsf(row[column + j]) < INFINITY);
        //$ else
        unsigned pairs[4];
        load_columns<HEAD_DIM_V, 8>(pairs, row + column, column);
        found |= (not_finite(pairs[0]) | not_finite(pairs[1]) | not_finite(pairs[2]) | not_finite(pairs[3])) != 0;
        //$ end
    }
    return __any_sync(0xffffffffu, found);
}

// Past the end of a sequence, TMA loads what follows it in the tensor. //$ if algorithm == flash_async and layout != dense
__device__ __forceinline__ int keys_there(const attention_params &p) { return p.total_kv; } //$ if algorithm == flash_async and layout != dense
__device__ __forceinline__ int keys_there(const attention_params &p) { return p.len_kv; }   //$ else

// True if an element of V is not finite in a K/V tile that some row of the unit sees only in part. //$ if mask == custom_mask
// True if an element of V is not finite in a K/V tile that some row of the warp sees only in part. //$ else
__device__ __forceinline__ bool values_want_care(const attention_params &p, const Tile &tile, int unit) {
    //$ if mask == custom_mask
    bool found = false;
    KeyWalk walk = walk_of_unit(p, tile, unit);
#pragma unroll 1
    while (walk.left > 0 && !found) {
        const int key = next_keys(p, tile, unit, walk) * BLOCK_N;
        found = !walk.whole && has_not_finite(p, tile, key, min(key + BLOCK_N, keys_there(p)));
    }
    return found;
    //$ else
    const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + static_cast<int>(threadIdx.x) % 16;
    const int first = __reduce_min_sync(0xffffffffu, keys_end(p, row_of(p, tile, unit, row).query + 1)); // all rows see the keys before
    return has_not_finite(p, tile, max(0, first), min(key_tiles(p, tile.query, queries_of_tile(p)) * BLOCK_N, keys_there(p)));
    //$ end
}
