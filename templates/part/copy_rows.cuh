// Rows of a tensor in global memory -> a tile in shared memory, in chunks of four floats. What lies outside the tensor
// is never read and becomes 0. A tile may be read after copies_wait() and then a barrier.
//$ include "part/element.cuh"
//$ let copy_async = dtype == fp32 and target != any
//$ if copy_async
//$ include "target/sm_80.cuh"
//$ end

// Whether rows may be read or written a chunk at a time: each starts a multiple of four elements from an aligned one.
template <typename Element>
__device__ __forceinline__ bool in_chunks(const void *tensor, long long stride, long long other, long long row_stride,
                                          int columns) {
    const bool aligned = reinterpret_cast<unsigned long long>(tensor) % (4 * sizeof(Element)) == 0;
    return aligned && (stride | other | row_stride | columns) % 4 == 0;
}

//$ if dtype == fp32
__device__ __forceinline__ float4 load_chunk(const Input *from) { return *reinterpret_cast<const float4 *>(from); }
//$ else
__device__ __forceinline__ float4 load_chunk(const Input *from) {
    const uint2 bits = *reinterpret_cast<const uint2 *>(from);
    return make_float4(to_float(static_cast<Input>(bits.x)), to_float(static_cast<Input>(bits.x >> 16)),
                       to_float(static_cast<Input>(bits.y)), to_float(static_cast<Input>(bits.y >> 16)));
}
//$ end

// A chunk that begins with `count` elements of the tensor, which may be none or more than four.
__device__ __forceinline__ void copy_chunk(float4 *to, const Input *from, int count, bool chunks) {
//$ if copy_async
    if (chunks)
        return copy_async_16(to, from, count > 0);
    float *element = reinterpret_cast<float *>(to);
    for (int e = 0; e < 4; e++)
        copy_async_4(element + e, from + e, e < count);
//$ else
    if (chunks) {
        *to = count > 0 ? load_chunk(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        return;
    }
    *to = make_float4(count > 0 ? to_float(from[0]) : 0.0f, count > 1 ? to_float(from[1]) : 0.0f,
                      count > 2 ? to_float(from[2]) : 0.0f, count > 3 ? to_float(from[3]) : 0.0f);
//$ end
}

// Writes the first `count` elements of a chunk, which may be none or more than four.
__device__ __forceinline__ void store_chunk(Output *to, float4 x, int count, bool chunks) {
    if (chunks && count > 0) {
//$ if dtype_out == fp32
        *reinterpret_cast<float4 *>(to) = x;
//$ else
        *reinterpret_cast<uint2 *>(to) = make_uint2(to_output(x.x) | static_cast<unsigned>(to_output(x.y)) << 16,
                                                    to_output(x.z) | static_cast<unsigned>(to_output(x.w)) << 16);
//$ end
        return;
    }
    if (count > 0)
        to[0] = to_output(x.x);
    if (count > 1)
        to[1] = to_output(x.y);
    if (count > 2)
        to[2] = to_output(x.z);
    if (count > 3)
        to[3] = to_output(x.w);
}

// All threads of the block together fill the first CHUNKS chunks of ROWS rows from `count` rows of COLUMNS elements.
template <int ROWS, int COLUMNS, int CHUNKS, int STRIDE>
__device__ __forceinline__ void copy_rows(float4 (*tile)[STRIDE], const Input *rows, long long row_stride, int count,
                                          bool chunks) {
    constexpr int ACROSS = CHUNKS < THREADS ? CHUNKS : THREADS, DOWN = THREADS / ACROSS;
    const int first = static_cast<int>(threadIdx.x) / ACROSS;
    if (first >= DOWN)
        return; // left over when CHUNKS does not divide THREADS
#pragma unroll 1
    for (int chunk = static_cast<int>(threadIdx.x) % ACROSS; chunk < CHUNKS; chunk += ACROSS) {
        const Input *from = rows + first * row_stride + chunk * 4;
        const int columns = COLUMNS - chunk * 4;
        if (chunks) {
#pragma unroll COPY_UNROLL
            for (int row = 0; row < ROWS; row += DOWN, from += DOWN * row_stride)
                if (ROWS % DOWN == 0 || first + row < ROWS)
                    copy_chunk(&tile[first + row][chunk], from, first + row < count ? columns : 0, true);
        } else {
#pragma unroll 1
            for (int row = 0; row < ROWS; row += DOWN, from += DOWN * row_stride)
                if (ROWS % DOWN == 0 || first + row < ROWS)
                    copy_chunk(&tile[first + row][chunk], from, first + row < count ? columns : 0, false);
        }
    }
}

__device__ __forceinline__ void copies_wait() {
//$ if copy_async
    copy_async_wait();
//$ end
}
