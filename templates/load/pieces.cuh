//$ needs threads
//$ include "target/sm_80.cuh"

// Rows of a tensor of 16-bit elements -> rows of 16-byte chunks in shared memory, by copies that are as wide as the tensor's
// alignment permits. What lies outside the tensor is never touched and reads as 0.

// Chunks of 8 neighbouring rows that have one number lie in different banks, as ldmatrix reads them: where rows are so many
// chunks apart that they would not, chunks trade places within a row. Whose number is known but for its last bit, `odd`, is at
// one of few distances from the row.
template <int ROWS, int WIDTH> struct Rows16 {
    uint4 chunk[ROWS * WIDTH];

    static __device__ __forceinline__ unsigned place(unsigned row, unsigned index, unsigned odd) {
        constexpr unsigned BITS = WIDTH % 8 == 0 ? 3 : WIDTH % 4 == 0 ? 2 : WIDTH % 2 == 0 ? 1 : 0, TRADE = (1 << BITS) - 1;
        return row * WIDTH + (index & ~TRADE) + (odd ^ row % 8 >> (3 - BITS) ^ (index & TRADE));
    }
    __device__ __forceinline__ uint4 *at(unsigned row, unsigned index, unsigned odd = 0) { return &chunk[place(row, index, odd)]; }
    __device__ __forceinline__ const uint4 *at(unsigned row, unsigned index, unsigned odd = 0) const {
        return &chunk[place(row, index, odd)];
    }
};

// The widest pieces, in bytes, that rows of a tensor of 16-bit elements consist of: 16, 8, 4 or 2.
__device__ __forceinline__ int piece_bytes(const void *tensor, long long batch_stride, long long head_stride,
                                           long long row_stride) {
    const long long bits = reinterpret_cast<long long>(tensor) | 2 * (batch_stride | head_stride | row_stride);
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

// Element `first` and following ones of a row -> SIZE bytes; `wanted` of them are there, in bytes, if any.
template <int SIZE> __device__ __forceinline__ void copy_piece_of(void *to, const unsigned short *from, int wanted) {
    copy_async<SIZE>(to, from, max(0, min(wanted, SIZE)));
}
// There is no asynchronous copy of 2 bytes.
template <> __device__ __forceinline__ void copy_piece_of<2>(void *to, const unsigned short *from, int wanted) {
    *static_cast<unsigned *>(to) = (wanted > 0 ? from[0] : 0) | static_cast<unsigned>(wanted > 2 ? from[1] : 0) << 16;
}

// All threads of the block fill the rows of a tile, neighbours along a row. `rows` says where a row of COLUMNS elements begins
// and whether it is there.
template <int SIZE, int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_tile_by(Rows16<ROWS, WIDTH> &tile, const RowsFrom &rows) {
    constexpr int STEP = SIZE < 4 ? 4 : SIZE, PIECES_OF_ROW = WIDTH * 16 / STEP, POWER = PIECES_OF_ROW & -PIECES_OF_ROW;
    constexpr int ACROSS = POWER < 32 ? POWER : 32, DOWN = THREADS / ACROSS, OF_ROW = PIECES_OF_ROW / ACROSS;
    // Loads to registers want company, for nothing goes on until they are back; where they are rare, they get few registers.
    constexpr int AT_ONCE = SIZE == 2 && COLUMNS % 8 != 0 ? 10 : 4;
    constexpr int DOWN_AT_ONCE = COLUMNS % 8 != 0 && OF_ROW < AT_ONCE ? AT_ONCE / OF_ROW : 1;
    const unsigned thread = set_apart(threadIdx.x); // or addresses would be kept from round to round
#pragma unroll(SIZE == 16 ? 16 : DOWN_AT_ONCE)
    for (int down = 0; down < ROWS; down += DOWN) {
        const int row = down + static_cast<int>(thread / ACROSS);
        if (ROWS % DOWN != 0 && row >= ROWS)
            break;
        const unsigned short *from = rows.at(row);
        const int columns = rows.has(row) ? COLUMNS : 0;
#pragma unroll(SIZE == 16 ? 16 : AT_ONCE)
        for (int piece = 0; piece < PIECES_OF_ROW; piece += ACROSS) {
            const int byte = (piece + static_cast<int>(thread % ACROSS)) * STEP;
            copy_piece_of<SIZE>(reinterpret_cast<unsigned char *>(tile.at(row, byte / 16)) + byte % 16, from + byte / 2,
                                2 * columns - byte);
        }
    }
}

// The same, with pieces of `size` bytes.
template <int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_tile(Rows16<ROWS, WIDTH> &tile, const RowsFrom &rows, int size) {
    if (size == 16)
        copy_tile_by<16, COLUMNS>(tile, rows);
    else if (size == 8)
        copy_tile_by<8, COLUMNS>(tile, rows);
    else if (size == 4)
        copy_tile_by<4, COLUMNS>(tile, rows);
    else
        copy_tile_by<2, COLUMNS>(tile, rows);
}
