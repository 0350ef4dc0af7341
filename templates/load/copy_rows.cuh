//$ needs threads
//$ include "sequence/element.cuh"

// Rows of a tensor in global memory -> a tile in shared memory, in chunks of four elements. Elements outside
// the tensor are not accessed and read as 0. A tile may be used after copies_wait() and then a barrier.

// True if a chunk is one load: the tensor is aligned, and rows start at multiples of four elements.
template <typename Element>
__device__ __forceinline__ bool in_chunks(const void *tensor, long long batch_stride, long long head_stride,
                                          long long row_stride, int columns) {
    const bool aligned = reinterpret_cast<unsigned long long>(tensor) % (4 * sizeof(Element)) == 0;
    return aligned && (batch_stride | head_stride | row_stride | columns) % 4 == 0;
}

// All threads of the block fill ROWS rows of WIDTH chunks from `count` rows of COLUMNS elements. ACROSS threads
// copy a row, and all threads step down the rows together, so a thread only adds to its address.
template <bool ALIGNED, int ROWS, int WIDTH, int COLUMNS, int APART>
__device__ __forceinline__ void copy_rows_by(float4 (&tile)[ROWS][APART], const Input *rows, long long row_stride,
                                             int count) {
    constexpr int ACROSS = WIDTH < THREADS ? WIDTH : THREADS, DOWN = THREADS / ACROSS;
    const int thread = static_cast<int>(threadIdx.x), first = thread / ACROSS;
    if (first >= DOWN)
        return; // no row for this thread
#pragma unroll 1
    for (int chunk = thread % ACROSS; chunk < WIDTH; chunk += ACROSS) {
        const Input *from = rows + first * row_stride + chunk * 4;
#pragma unroll(ALIGNED ? 8 : 1)
        for (int row = 0; row < ROWS; row += DOWN, from += DOWN * row_stride)
            if (ROWS % DOWN == 0 || first + row < ROWS)
                copy_chunk<ALIGNED>(&tile[first + row][chunk], from, first + row < count ? COLUMNS - chunk * 4 : 0);
    }
}

template <int ROWS, int WIDTH, int COLUMNS, int APART>
__device__ __forceinline__ void copy_rows(float4 (&tile)[ROWS][APART], const Input *rows, long long row_stride,
                                          int count, bool chunks) {
    if (chunks)
        copy_rows_by<true, ROWS, WIDTH, COLUMNS>(tile, rows, row_stride, count);
    else
        copy_rows_by<false, ROWS, WIDTH, COLUMNS>(tile, rows, row_stride, count);
}
