//$ needs dtype head_dim_v mask block_n
//$ include "sequence/element.cuh"
//$ include "fragment/softmax_rows.cuh"
//$ include "work/tile.cuh"

// A weight of 0 keeps out every value but NaN and infinity: 0 times those is NaN. So a row of O that is not finite may have it
// from the value of a key it does not see, if such a value is in a tile of keys that it sees in part. Such rows are done over.

// Which of the warp's rows are not finite, though their sum is: bit 4 g + r for row g + 8 r.
__device__ __forceinline__ unsigned rows_to_repeat(const float (&o)[HEAD_DIM_V / 2], const Rows &rows) {
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd_columns = 0; // a sum is finite only if all its terms are
#pragma unroll
        for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
            even += o[i], odd_columns += o[i + 1];
        unsigned odd = __ballot_sync(0xffffffffu, !(fabsf(even + odd_columns) < INFINITY)); // lanes 4 g to 4 g + 3 hold row g
        unsigned right = __ballot_sync(0xffffffffu, !(rows.sum[r] < INFINITY));
        odd |= odd >> 1, right |= right >> 1;
        odd |= odd >> 2, right |= right >> 2;
        bits |= (odd & ~right & 0x11111111) << r;
    }
    return bits;
}

// All bits of those of two elements that are not finite.
__device__ __forceinline__ unsigned not_finite(unsigned pair) {
    //$ if dtype == bf16
    unsigned signs = ((pair & 0x7fff7fff) + 0x00800080) & 0x80008000; // an exponent of ones carries over
    //$ else
    unsigned signs = ((pair & 0x7fff7fff) + 0x04000400) & 0x80008000;
    //$ end
    return (signs >> 15) * 0xffff;
}

// Is a value of keys first, first + 1, ... end - 1 not finite?
__device__ __forceinline__ bool has_not_finite(const attention_params &p, const Tile &tile, int first, int end) {
    const Input *v = static_cast<const Input *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride;
    bool found = false;
#pragma unroll 1
    for (int key = first; key < end; key++)
#pragma unroll
        for (int column = threadIdx.x % 32 * 2; column < HEAD_DIM_V; column += 64) {
            const unsigned pair = *reinterpret_cast<const unsigned *>(v + key * p.v_row_stride + column);
            found |= not_finite(pair) != 0;
        }
    return __any_sync(0xffffffffu, found);
}

// Is it so in a tile of keys that some row of the unit does not see all of?
__device__ __forceinline__ bool values_want_care(const attention_params &p, const Tile &tile, int unit) {
    //$ if mask == custom_mask
    bool found = false;
    KeyWalk walk = walk_of_unit(p, tile, unit);
#pragma unroll 1
    while (walk.left > 0 && !found) {
        const int key = next_keys(p, tile, unit, walk) * BLOCK_N;
        found = !walk.whole && has_not_finite(p, tile, key, min(key + BLOCK_N, p.len_kv));
    }
    return found;
    //$ else
    const int first = keys_end(p, tile.query + unit * queries_of_unit(p) + 1);
    return has_not_finite(p, tile, max(0, first), min(key_tiles(p, tile.query, queries_of_tile(p)) * BLOCK_N, p.len_kv));
    //$ end
}

