//$ needs dtype_out
//$ include "sequence/element.cuh"

// The columns of a row that the accumulators of a warp hold: all of them, in order.
struct AllColumns {
    static __device__ __forceinline__ int column_of(int chunk) { return 8 * chunk; } // the first of a chunk's 8
};

//$ if dtype_out != fp32
//$ include "target/sm_80.cuh"
//$ include "store/chunk_of_quad.cuh"

__device__ __forceinline__ unsigned pack_output(float low, float high) {
    return pack<true>(low, high);  //$ if dtype_out == bf16
    return pack<false>(low, high); //$ else
}

// Stores row lane / 4 + 8 * r of the accumulators times a factor, 16 bytes at a time: each lane of the row stores every fourth chunk.
template <int DIM, int HALF, typename Columns>
__device__ __forceinline__ void store_chunks(const float (&sum)[HALF], int r, int lane, float factor, Output *to, bool inside,
                                             Columns columns) {
    constexpr int COUNT = HALF / 4; // chunks in a row
#pragma unroll
    for (int chunk = 0; chunk < COUNT; chunk += 4) {
        unsigned pair[4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int i = 4 * min(chunk + n, COUNT - 1) + 2 * r;
            pair[n] = pack_output(factor * sum[i], factor * sum[i + 1]);
        }
        const uint4 bits = chunk_of_quad(pair);
        if (inside && 8 * (chunk + lane % 4) < DIM)
            *reinterpret_cast<uint4 *>(to + columns.column_of(chunk + lane % 4)) = bits;
    }
}
//$ end

// Stores the accumulators of a warp times a factor to rows row0 .. of a head, of which `count` exist.
template <int DIM, int TILES, int HALF, typename Columns = AllColumns>
__device__ __forceinline__ void store_rows(const float (&sum)[TILES][HALF], float factor, void *tensor, long long batch_stride,
                                           long long head_stride, long long row_stride, int batch, int head, int row0, int count,
                                           Columns columns = {}) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32); // so that the compiler keeps nothing derived from it across a loop
    const long long strides = batch_stride | head_stride | row_stride;
    const unsigned long long address = reinterpret_cast<unsigned long long>(tensor);
    Output *rows = static_cast<Output *>(tensor) + batch * batch_stride + head * head_stride;
    const bool chunks = DIM % 8 == 0 && strides % 8 == 0 && address % 16 == 0; //$ if dtype_out != fp32
    // two elements go into one store if every row begins at a multiple of two
    const bool pairs = DIM % 2 == 0 && strides % 2 == 0 && address % (2 * sizeof(Output)) == 0;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = 16 * t + lane / 4 + 8 * r;
            Output *const to = rows + (row0 + row) * row_stride;
            //$ if dtype_out != fp32
            if (chunks) {
                store_chunks<DIM>(sum[t], r, lane, factor, to, row < count, columns);
                continue;
            }
            //$ end
            if (row >= count)
                continue;
#pragma unroll
            for (int i = 2 * r; i < HALF; i += 4) {
                const int column = i / 4 * 8 + lane % 4 * 2, place = columns.column_of(i / 4) + lane % 4 * 2;
                const float low = factor * sum[t][i], high = factor * sum[t][i + 1];
                if (pairs && column < DIM) {
                    *reinterpret_cast<float2 *>(to + place) = make_float2(low, high);   //$ if dtype_out == fp32
                    *reinterpret_cast<unsigned *>(to + place) = pack_output(low, high); //$ else
                } else {
                    if (column < DIM)
                        to[place] = to_output(low);
                    if (column + 1 < DIM)
                        to[place + 1] = to_output(high);
                }
            }
        }
}
