//$ needs dtype dtype_out threads target chunks pitch
//$ include "sequence/element.cuh"
//$ let copy_async = dtype == fp32 and target != any
//$ include "target/sm_80.cuh" if copy_async

// Rows of a tensor in global memory -> a tile in shared memory, and back, in chunks of four elements. Elements outside
// the tensor are not accessed and read as 0. A tile may be used after copies_wait() and then a barrier.

// Whether a chunk is one load: rows start at multiples of four elements from an aligned tensor.
template <typename Element>
__device__ __forceinline__ bool in_chunks(const void *tensor, long long batch_stride, long long head_stride,
                                          long long row_stride, int columns) {
    const bool aligned = reinterpret_cast<unsigned long long>(tensor) % (4 * sizeof(Element)) == 0;
    return aligned && (batch_stride | head_stride | row_stride | columns) % 4 == 0;
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

// A chunk of which `count` elements are in the tensor: none or fewer, up to four or more.
//$ if copy_async
template <bool CHUNKS> __device__ __forceinline__ void copy_chunk(float4 *to, const Input *from, int count) {
    if constexpr (CHUNKS) {
        copy_async<16>(to, from, count > 0 ? 16 : 0);
    } else {
        for (int e = 0; e < 4; e++)
            copy_async<4>(reinterpret_cast<float *>(to) + e, from + e, e < count ? 4 : 0);
    }
}

__device__ __forceinline__ void copies_wait() { copy_async_wait(); }
//$ else
template <bool CHUNKS> __device__ __forceinline__ void copy_chunk(float4 *to, const Input *from, int count) {
    if constexpr (CHUNKS)
        *to = count > 0 ? load_chunk(from) : make_float4(0, 0, 0, 0);
    else
        *to = make_float4(count > 0 ? to_float(from[0]) : 0, count > 1 ? to_float(from[1]) : 0,
                          count > 2 ? to_float(from[2]) : 0, count > 3 ? to_float(from[3]) : 0);
}

__device__ __forceinline__ void copies_wait() {}
//$ end

// All threads of the block fill ROWS rows of WIDTH chunks from `count` rows of COLUMNS elements: ACROSS threads copy
// a row, and all step down the rows together, so a thread only adds to its address.
template <bool CHUNKS, int ROWS, int WIDTH, int COLUMNS, int PITCH>
__device__ __forceinline__ void copy_rows_by(float4 (&tile)[ROWS][PITCH], const Input *rows, long long row_stride,
                                             int count) {
    constexpr int ACROSS = WIDTH < THREADS ? WIDTH : THREADS, DOWN = THREADS / ACROSS;
    const int thread = static_cast<int>(threadIdx.x), first = thread / ACROSS;
    if (first >= DOWN)
        return; // no row for this thread
#pragma unroll 1
    for (int chunk = thread % ACROSS; chunk < WIDTH; chunk += ACROSS) {
        const Input *from = rows + first * row_stride + chunk * 4;
#pragma unroll(CHUNKS ? 8 : 1)
        for (int row = 0; row < ROWS; row += DOWN, from += DOWN * row_stride)
            if (ROWS % DOWN == 0 || first + row < ROWS)
                copy_chunk<CHUNKS>(&tile[first + row][chunk], from, first + row < count ? COLUMNS - chunk * 4 : 0);
    }
}

template <int ROWS, int WIDTH, int COLUMNS, int PITCH>
__device__ __forceinline__ void copy_rows(float4 (&tile)[ROWS][PITCH], const Input *rows, long long row_stride,
                                          int count, bool chunks) {
    if (chunks)
        copy_rows_by<true, ROWS, WIDTH, COLUMNS>(tile, rows, row_stride, count);
    else
        copy_rows_by<false, ROWS, WIDTH, COLUMNS>(tile, rows, row_stride, count);
}

// Writes the first `count` elements of a chunk: none or fewer, up to four or more.
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
