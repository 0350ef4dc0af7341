//$ needs threads dtype
//$ include "load/pieces.cuh"

// Tiles are copied ahead of their use, from rows of any alignment.
//$ if dtype != fp32
// An asynchronous copy has at least 4 bytes. A row that begins between two words is copied from the word before it, and is shifted
// back by one element once it has arrived. So 2 bytes before a tensor are read, but they lie in the word of its first element.

// Rows that start at the word of their first element.
template <typename RowsFrom> struct RowsOfWords {
    RowsFrom rows;

    __device__ __forceinline__ void begin(int first, int column) { rows.begin(first, column); }
    __device__ __forceinline__ void next(int count) { rows.next(count); }
    __device__ __forceinline__ bool has() const { return rows.has(); }
    __device__ __forceinline__ int before() const { return reinterpret_cast<unsigned long long>(rows.from()) % 4; }
    __device__ __forceinline__ const Input *from() const { return rows.from() - before() / 2; }
};

// All threads of the block shift the rows of a tile that were copied this way, neighbouring threads along a
// row. A thread has a chunk of 8 elements and needs the first element of the next chunk, which its neighbour
// overwrites. After the last chunk, that element is read from the tensor.
template <int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void move_rows(Rows16<ROWS, WIDTH> &tile, RowsFrom rows) {
    constexpr int POWER = WIDTH & -WIDTH, ACROSS = POWER < 16 ? POWER : 16, DOWN = THREADS / ACROSS;
    const int thread = static_cast<int>(opaque(threadIdx.x)), first_row = thread / ACROSS;
    rows.begin(first_row, 0);
#pragma unroll 1 // few registers are free
    for (int down = 0; down < ROWS; down += DOWN, rows.next(DOWN)) {
        const int row = first_row + down;
        const bool moves = row < ROWS && reinterpret_cast<unsigned long long>(rows.from()) % 4 != 0;
#pragma unroll 1
        for (int index = thread % ACROSS; index < WIDTH; index += ACROSS) {
            uint4 x = {};
            unsigned next = 0;
            if (moves) {
                x = tile.at(row, index);
                if (index + 1 < WIDTH)
                    next = tile.at(row, index + 1).x;
                else if (COLUMNS == WIDTH * 8 && rows.has())
                    next = rows.from()[COLUMNS - 1];
            }
            __syncwarp(); // neighbours have read
            if (moves)
                tile.at(row, index) = {x.x >> 16 | x.y << 16, x.y >> 16 | x.z << 16, x.z >> 16 | x.w << 16,
                                       x.w >> 16 | next << 16};
        }
    }
}

// Finishes a tile that was copied in pieces of `size` bytes. Its copies are complete and visible to all threads.
template <int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void settle_tile(Rows16<ROWS, WIDTH> &tile, const RowsFrom &rows, int size) {
    if (size < 4) {
        move_rows<COLUMNS>(tile, rows);
        __syncthreads(); // rows are in their places
    }
}
//$ end

// Calls copy_tile_by with pieces of `size` bytes.
template <int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_tile(Rows16<ROWS, WIDTH> &tile, const RowsFrom &rows, int size) {
    if (size == 16)
        copy_tile_by<16, COLUMNS>(tile, rows);
    else if (size == 8)
        copy_tile_by<8, COLUMNS>(tile, rows);
    //$ if dtype == fp32
    else
        copy_tile_by<4, COLUMNS>(tile, rows);
    //$ else
    else
        copy_tile_by<4, COLUMNS>(tile, RowsOfWords<RowsFrom>{rows});
    //$ end
}
