//$ needs dtype_out
//$ include "sequence/element.cuh"

// The accumulators of a warp times a factor -> rows row0 .. of a head, of which `count` are there.
template <int DIM, int TILES, int HALF>
__device__ __forceinline__ void store_rows(const float (&sum)[TILES][HALF], float factor, void *tensor, long long batch_stride,
                                           long long head_stride, long long row_stride, int batch, int head, int row0, int count) {
    const int lane = threadIdx.x % 32;
    Output *rows = static_cast<Output *>(tensor) + batch * batch_stride + head * head_stride;
    // two elements are one store where every row begins at a multiple of two
    const bool pairs = DIM % 2 == 0 && (batch_stride | head_stride | row_stride) % 2 == 0 &&
                       reinterpret_cast<unsigned long long>(tensor) % (2 * sizeof(Output)) == 0;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < HALF; i += 2) {
            const int row = 16 * t + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2;
            Output *to = rows + (row0 + row) * row_stride + column;
            const float low = factor * sum[t][i], high = factor * sum[t][i + 1];
            if (row >= count)
                continue;
            if (pairs && column < DIM) {
                //$ if dtype_out == fp32
                *reinterpret_cast<float2 *>(to) = make_float2(low, high);
                //$ else
                *reinterpret_cast<unsigned *>(to) = to_output(low) | static_cast<unsigned>(to_output(high)) << 16;
                //$ end
            } else {
                if (column < DIM)
                    to[0] = to_output(low);
                if (column + 1 < DIM)
                    to[1] = to_output(high);
            }
        }
}
