//$ needs output_columns dtype_out bfloat16_out
//$ include "pipeline/half_of_columns.cuh"
//$ include "store/columns.cuh"
//$ include "store/run_parts.cuh"

//$ if dtype_out != fp32
// Do all rows of O consist of pieces of 4 bytes?
__device__ __forceinline__ bool has_pairs(const attention_params &p) {
    return (reinterpret_cast<long long>(p.o) / 2 | p.o_batch_stride | p.o_head_stride | p.o_row_stride) % 2 == 0;
}

//$ end
// Two neighbouring elements of O, divided by l, of which the first one's column is even.
__device__ __forceinline__ void store_pair(const attention_params &p, int batch, const Row &at, int column, float2 x) {
    //$ if dtype_out != fp32
    if (has_pairs(p) && at.query < p.len_q) {
        *reinterpret_cast<unsigned *>(static_cast<Output *>(p.o) + batch * p.o_batch_stride + at.head * p.o_head_stride +
                                      at.query * p.o_row_stride + column) = pack<BFLOAT16_OUT>(x.x, x.y);
        return;
    }
    //$ end
    store_element(p, batch, at, column, x.x);
    store_element(p, batch, at, column + 1, x.y);
}

// The half of O that a warpgroup has of a Q tile, or of the block's part of it.
__device__ __forceinline__ void store_half(const Consumer &half, const attention_params &p, const Run &run, const Tile &tile) {
    const bool whole = run.first <= tile.first && tile.end <= run.end;
    Part *part = part_of(p, blockIdx.x, run.first < tile.first);
    const int first = half.index * OUTPUT_COLUMNS + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int line = half.row + 8 * r;
        const Row at = row_of(p, tile, line);
        const float sum = half.shared.sum[0][line] + half.shared.sum[1][line];
        if (first == 0 && whole)
            store_lse(p, tile.batch, at, half.max[r], sum);
        else if (first == 0)
            part->state[line] = make_float2(half.max[r], sum);
        const float inverse = inverse_of(sum);
#pragma unroll
        for (int j = 0; j < OUTPUT_COLUMNS / 8; j++) {
            const float2 o = make_float2(half.o[4 * j + 2 * r], half.o[4 * j + 2 * r + 1]);
            if (whole)
                store_pair(p, tile.batch, at, first + 8 * j, make_float2(o.x * inverse, o.y * inverse));
            else
                *reinterpret_cast<float2 *>(&part->o[line][first + 8 * j]) = o;
        }
    }
}
