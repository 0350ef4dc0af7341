//$ needs threads
//$ include "target/sm_80.cuh"
//$ include "load/piece_bytes.cuh"
//$ include "sequence/element.cuh"

// Rows of a tensor -> rows of 16-byte chunks in shared memory, by copies that are as wide as the tensor's alignment
// permits. Elements outside the tensor read as 0.

// A swizzled tile. Chunks with the same index in 8 neighbouring rows lie in different banks, as ldmatrix reads
// them: where the row pitch would not give that, chunks trade places within a row. Tiles are aligned to 128 bytes.
template <int ROWS, int WIDTH> struct Rows16 {
    static constexpr unsigned BITS = WIDTH % 8 == 0 ? 3 : WIDTH % 4 == 0 ? 2 : WIDTH % 2 == 0 ? 1 : 0, TRADE = (1 << BITS) - 1;
    uint4 chunk[ROWS * WIDTH];

    static __device__ __forceinline__ unsigned place(unsigned row, unsigned index) {
        return row * WIDTH + (index & ~TRADE) + (row % 8 >> (3 - BITS) ^ (index & TRADE));
    }
    // Chunk `index` of a row, and its address.
    __device__ __forceinline__ uint4 &at(unsigned row, unsigned index) { return chunk[place(row, index)]; }
    __device__ __forceinline__ SharedAddress address(unsigned row, unsigned index) const {
        return address_in_shared(&chunk[place(row, index)]);
    }
    // Returns the address of the chunk `rows` rows, a multiple of 8, and `index` chunks beyond the one at `address`, whose
    // own index has no bit in common with `index`. So few addresses serve many chunks, at constant distances from them.
    static __device__ __forceinline__ SharedAddress beyond(SharedAddress address, unsigned rows, unsigned index) {
        return (address ^ 16 * (index & TRADE)) + 16 * (rows * WIDTH + (index & ~TRADE));
    }
};

// Copies SIZE bytes from `from`, of which `wanted` exist (0 or less: none); the others become 0.
template <int SIZE, typename Element>
__device__ __forceinline__ void copy_piece_of(SharedAddress to, const Element *from, int wanted) {
    copy_async_to<SIZE>(to, from, max(0, min(wanted, SIZE)));
}

// All threads of the block fill the rows of a tile, neighbouring threads along a row. `rows` steps down the rows that a thread
// copies. It tells where a row of COLUMNS elements begins, how many bytes before it are copied too, and whether the row exists.
template <int SIZE, int COLUMNS, int ROWS, int WIDTH, typename RowsFrom>
__device__ __forceinline__ void copy_tile_by(Rows16<ROWS, WIDTH> &tile, RowsFrom rows) {
    constexpr int STEP = SIZE < 4 ? 4 : SIZE, PIECES_OF_ROW = WIDTH * 16 / STEP, POWER = PIECES_OF_ROW & -PIECES_OF_ROW;
    constexpr int ACROSS = POWER < 16 ? POWER : 16, DOWN = THREADS / ACROSS, OF_ROW = PIECES_OF_ROW / ACROSS; // 8 divides DOWN
    // Loads to registers should overlap, since a thread stalls until they return. Where they are rare, they get few registers.
    constexpr int AT_ONCE = SIZE > 2 ? 4 : COLUMNS % 8 != 0 ? 10 : 2;
    constexpr int DOWN_AT_ONCE = SIZE == 16 ? 16 : SIZE > 2 ? 4 : COLUMNS % 8 != 0 && OF_ROW < AT_ONCE ? AT_ONCE / OF_ROW : 1;
    const unsigned thread = opaque(threadIdx.x); // otherwise addresses would be kept from round to round
    const int first_row = static_cast<int>(thread / ACROSS), first_byte = static_cast<int>(thread % ACROSS) * STEP;
    const SharedAddress to = tile.address(first_row, first_byte / 16) + first_byte % 16;
    rows.begin(first_row, first_byte / ELEMENT_BYTES);
#pragma unroll(DOWN_AT_ONCE)
    for (int down = 0; down < ROWS; down += DOWN, rows.next(DOWN)) {
        if (ROWS % DOWN != 0 && first_row + down >= ROWS)
            break;
#pragma unroll(SIZE == 16 ? 16 : AT_ONCE)
        for (int piece = 0; piece < PIECES_OF_ROW; piece += ACROSS) {
            const int byte = piece * STEP + first_byte, left = COLUMNS * ELEMENT_BYTES == WIDTH * 16 ? STEP : COLUMNS * ELEMENT_BYTES - byte;
            copy_piece_of<SIZE>(tile.beyond(to, down, piece * STEP / 16), rows.from() + piece * STEP / ELEMENT_BYTES, rows.has() ? left + rows.before() : 0);
        }
    }
}
