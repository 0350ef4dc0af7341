//$ include "load/tile_rows.cuh"
//$ include "load/copy_tile.cuh"

// A tensor whose tiles are copied, one head of it.
struct HeadRows {
    const unsigned short *rows;
    long long stride;
    int count, piece; // rows; bytes of a copy

    template <int DIM, int ROWS, int WIDTH> __device__ __forceinline__ void copy(Rows16<ROWS, WIDTH> &to, int first) const {
        copy_tile<DIM>(to, TileRows{rows + first * stride, stride, count - first}, piece);
    }
};

__device__ __forceinline__ HeadRows head_rows(const void *tensor, long long batch_stride, long long head_stride,
                                              long long row_stride, int batch, int head, int count) {
    // computed anew for every tile: products cost less than registers that are kept
    return {static_cast<const unsigned short *>(tensor) + set_apart(batch) * batch_stride + set_apart(head) * head_stride,
            row_stride, count, piece_bytes(tensor, batch_stride, head_stride, row_stride)};
}
