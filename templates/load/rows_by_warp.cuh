//$ needs block_n chunks chunks_v shared_kv quantised kv_scale
//$ include "load/narrow_piece_of_bytes.cuh" if quantised == 1 else "load/narrow_piece.cuh"

// One K/V tile of a warp in shared memory.
struct KeyStage {
    Rows16<BLOCK_N, CHUNKS> k;
    Rows16<BLOCK_N, CHUNKS_V> v; //$ if shared_kv == 0
    float k_scale[BLOCK_N], v_scale[BLOCK_N]; //$ if kv_scale == token
};

// The lanes of a warp fill the rows of a tile, neighbouring lanes along a row, with `count` rows of COLUMNS
// elements, whose addresses come from `rows`, and with zeros after them.
template <int SIZE, int COLUMNS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_rows_by(Rows16<BLOCK_N, WIDTH> &tile, const RowsFrom &rows, int count) {
    constexpr int BYTES = sizeof(InputKv), STEP = SIZE < 4 ? 4 : SIZE, PIECES_OF_ROW = WIDTH * 16 / STEP;
    const int lane = opaque(threadIdx.x) % 32; // otherwise addresses would be kept from tile to tile
    if constexpr (SIZE == 16 && WIDTH % 8 == 0 && 32 % WIDTH == 0) {
        constexpr int DOWN = 32 / WIDTH;
        const SharedAddress to = tile.address(lane / WIDTH, lane % WIDTH);
#pragma unroll
        for (int down = 0; down < BLOCK_N; down += DOWN) { // `down` has no bit in common with the number of the first row
            const int row = lane / WIDTH + down;
            copy_piece_of<SIZE>(tile.beyond(to, down, down % 8), rows.from(row) + lane % WIDTH * (16 / BYTES),
                                row < count ? BYTES * COLUMNS == WIDTH * 16 ? 16 : BYTES * COLUMNS - lane % WIDTH * 16 : 0);
        }
    } else {
#pragma unroll(SIZE == 16 ? BLOCK_N * PIECES_OF_ROW / 32 : SIZE == 2 ? 4 : 1)
        for (int piece = lane; piece < BLOCK_N * PIECES_OF_ROW; piece += 32) {
            const int row = piece / PIECES_OF_ROW, byte = piece % PIECES_OF_ROW * STEP;
            copy_piece_of<SIZE>(tile.address(row, byte / 16) + byte % 16, rows.from(row) + byte / BYTES,
                                (row < count ? BYTES * COLUMNS : 0) - byte);
        }
    }
}

// Calls copy_rows_by with pieces of `size` bytes.
template <int COLUMNS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_rows(Rows16<BLOCK_N, WIDTH> &to, const RowsFrom &rows, int count, int size) {
    if (size == 16)
        copy_rows_by<16, COLUMNS>(to, rows, count);
    else if (size == 8)
        copy_rows_by<8, COLUMNS>(to, rows, count);
    else if (size == 4)
        copy_rows_by<4, COLUMNS>(to, rows, count);
    else
        copy_rows_by<2, COLUMNS>(to, rows, count);
}
