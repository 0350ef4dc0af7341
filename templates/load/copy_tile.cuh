//$ include "load/narrow_piece.cuh"

// Calls copy_tile_by with pieces of `size` bytes.
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
