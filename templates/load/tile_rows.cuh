//$ include "load/pieces.cuh"

// The rows of a tile, at a constant stride, as a thread steps down them.
struct TileRows {
    const Input *row;
    long long stride;
    int left; // number of existing rows from this one on

    __device__ __forceinline__ void begin(int first, int column) { row += first * stride + column, left -= first; }
    __device__ __forceinline__ void next(int rows) { row += rows * stride, left -= rows; }
    __device__ __forceinline__ bool has() const { return left > 0; }
    static __device__ __forceinline__ int before() { return 0; }
    __device__ __forceinline__ const Input *from() const { return row; }
};
