//$ needs block_m panels output_panels output_columns columns_v dtype_out bfloat16_out
//$ include "load/piece_bytes.cuh"
//$ include "pipeline/half_of_columns.cuh"
//$ include "store/columns.cuh"
//$ include "store/part.cuh"

// A warp passes its 16 rows of O through its share of the shared memory of Q, in swizzled pieces of 16 bytes, so that
// it writes whole lines of memory. There is room for OUTPUT_COLUMNS columns of 16 bits, or for half of them in fp32.
constexpr int ROW_PIECES = 8 * OUTPUT_PANELS;
static_assert(8 * 16 * ROW_PIECES * 16 <= PANELS * BLOCK_M * 128, "the shares of 8 warps");

__device__ __forceinline__ uint4 *piece_of_row(Shared &shared, int row, int piece) {
    return reinterpret_cast<uint4 *>(&shared.q) + (static_cast<int>(threadIdx.x) / 32 - 4) * 16 * ROW_PIECES + row * ROW_PIECES +
           (piece ^ row % 8);
}

// Stages half of the warp's columns, multiplied by the `factor` of each of the thread's two rows.
template <int FIRST> __device__ __forceinline__ void stage_floats(const Consumer &half, const float (&factor)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < OUTPUT_COLUMNS / 16; j++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            reinterpret_cast<float2 *>(piece_of_row(half.shared, lane / 4 + 8 * r, 2 * j + lane % 4 / 2))[lane % 2] =
                make_float2(half.o[FIRST + 4 * j + 2 * r] * factor[r], half.o[FIRST + 4 * j + 2 * r + 1] * factor[r]);
    __syncwarp();
}

//$ if dtype_out != fp32
__device__ __forceinline__ void stage_halves(const Consumer &half, const float (&factor)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < OUTPUT_COLUMNS / 16; j++) {
        unsigned pairs[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[i] = pack<BFLOAT16_OUT>(half.o[8 * j + 2 * i] * factor[i % 2], half.o[8 * j + 2 * i + 1] * factor[i % 2]);
        store_matrices(piece_of_row(half.shared, lane % 16, 2 * j + lane / 16), pairs[0], pairs[1], pairs[2], pairs[3]);
    }
    __syncwarp();
}

//$ end
// Stores the staged columns of the warp's first `rows` rows, from `to` on.
template <typename Element>
__device__ __forceinline__ void store_staged(Shared &shared, Element *to, long long row_stride, int rows, bool whole_pieces) {
    constexpr int ELEMENTS = 16 / sizeof(Element);
#pragma unroll 4
    for (int index = threadIdx.x % 32; index < rows * ROW_PIECES; index += 32) {
        const int row = index / ROW_PIECES, piece = index % ROW_PIECES;
        const uint4 *from = piece_of_row(shared, row, piece);
        Element *at = to + row * row_stride + ELEMENTS * piece;
        if (whole_pieces)
            *reinterpret_cast<uint4 *>(at) = *from;
        else
            for (int i = 0; i < ELEMENTS; i++)
                at[i] = reinterpret_cast<const Element *>(from)[i];
    }
    __syncwarp();
}

// Stores a warpgroup's half of O of a Q tile, or of the block's part of it.
__device__ __forceinline__ void store_half(const Consumer &half, const attention_params &p, const Run &run, const Tile &tile) {
    const bool whole = run.first <= tile.first && tile.end <= run.end;
    const Row first = row_of(p, tile, 0);
    const int line = half.row / 16 * 16, rows = min(16, rows_in_tile(p, tile) - line), column = half.index * OUTPUT_COLUMNS;
    const float sum[2] = {half.shared.sum[0][half.row] + half.shared.sum[1][half.row],
                          half.shared.sum[0][half.row + 8] + half.shared.sum[1][half.row + 8]};
    Part *part = part_of(p, blockIdx.x, run.first < tile.first);
    if (half.index == 0 && threadIdx.x % 4 == 0) {
#pragma unroll
        for (int r = 0; r < 2; r++)
            if (whole)
                store_lse(p, tile.batch, row_of(p, tile, half.row + 8 * r), half.max[r], sum[r]);
            else
                part->state[half.row + 8 * r] = make_float2(half.max[r], sum[r]);
    }
    if (!whole) {
        const float as_is[2] = {1, 1};
        stage_floats<0>(half, as_is);
        store_staged(half.shared, &part->o[line][column], COLUMNS_V, rows, true);
        stage_floats<OUTPUT_COLUMNS / 4>(half, as_is);
        store_staged(half.shared, &part->o[line][column + OUTPUT_COLUMNS / 2], COLUMNS_V, rows, true);
        return;
    }
    const float inverse[2] = {inverse_of(sum[0]), inverse_of(sum[1])};
    const bool whole_pieces = piece_bytes<Output>(p.o, p.o_batch_stride, p.o_head_stride, p.o_row_stride) == 16;
    Output *to = static_cast<Output *>(p.o) + tile.batch * p.o_batch_stride + (first.head + line) * p.o_head_stride +
                 first.query * p.o_row_stride + column;
    //$ if dtype_out == fp32
    stage_floats<0>(half, inverse);
    store_staged(half.shared, to, p.o_head_stride, rows, whole_pieces);
    stage_floats<OUTPUT_COLUMNS / 4>(half, inverse);
    store_staged(half.shared, to + OUTPUT_COLUMNS / 2, p.o_head_stride, rows, whole_pieces);
    //$ else
    stage_halves(half, inverse);
    store_staged(half.shared, to, p.o_head_stride, rows, whole_pieces);
    //$ end
}
