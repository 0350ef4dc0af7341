//$ include "load/tile_rows.cuh"
//$ include "load/copy_tile.cuh"

// One head of a tensor whose tiles are copied.
struct HeadRows {
    const unsigned short *rows;
    long long stride;
    int count, piece; // number of rows; bytes per copy

    template <int DIM, int ROWS, int WIDTH> __device__ __forceinline__ void copy(Rows16<ROWS, WIDTH> &to, int first) const {
        copy_tile<DIM>(to, TileRows{rows + first * stride, stride, count - first}, piece);
    }
};

__device__ __forceinline__ HeadRows head_rows(const void *tensor, long long batch_stride, long long head_stride,
                                              long long row_stride, int batch, int head, int count) {
    // recomputed for every tile: the multiplications cost less than keeping registers
    return {static_cast<const unsigned short *>(tensor) + opaque(batch) * batch_stride + opaque(head) * head_stride,
            row_stride, count, piece_bytes(tensor, batch_stride, head_stride, row_stride)};
}
