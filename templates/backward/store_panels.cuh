//$ needs block_n
//$ include "backward/repeat_keys.cuh"

// Rows of dK or dV from an item's first key on.
struct GradientRows {
    Output *first;
    long long stride;
    int count; // of rows that exist
};
__device__ __forceinline__ GradientRows rows_of_dk(const attention_backward_params &own, int kv_index, int key0) {
    const int kv_head = kv_index % own.forward.kv_heads, batch = kv_index / own.forward.kv_heads;
    return {static_cast<Output *>(own.dk) + batch * own.dk_batch_stride + kv_head * own.dk_head_stride + key0 * own.dk_row_stride,
            own.dk_row_stride, own.forward.len_kv - key0};
}
__device__ __forceinline__ GradientRows rows_of_dv(const attention_backward_params &own, int kv_index, int key0) {
    const int kv_head = kv_index % own.forward.kv_heads, batch = kv_index / own.forward.kv_heads;
    return {static_cast<Output *>(own.dv) + batch * own.dv_batch_stride + kv_head * own.dv_head_stride + key0 * own.dv_row_stride,
            own.dv_row_stride, own.forward.len_kv - key0};
}

// Transposes an 8 x 8 matrix of 16-bit elements, of which a lane holds two neighbours: row lane / 4, columns lane % 4 * 2 and + 1.
__device__ __forceinline__ unsigned transposed(unsigned pair) {
    const int lane = static_cast<int>(threadIdx.x) % 32, from = lane % 4 * 8 + lane / 8, shift = lane / 4 % 2 * 16;
    const unsigned low = __shfl_sync(0xffffffffu, pair, from), high = __shfl_sync(0xffffffffu, pair, from + 4);
    return (low >> shift & 0xffff) | high >> shift << 16;
}

// Stores a panel of 64 columns, of which a warpgroup holds the transpose (64 columns, BLOCK_N keys), times a factor. Returns whether a sum
// of this warp is not finite.
template <int DIM>
__device__ __forceinline__ bool store_panel(const float (&sum)[BLOCK_N / 2], float factor, const GradientRows &to, int panel) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    const int column = 64 * panel + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane % 2 * 8;
    const bool chunks = to.stride % 8 == 0 && reinterpret_cast<unsigned long long>(to.first) % 16 == 0;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 16; i++) {
        unsigned pair[4]; // of chunks of 8 columns: two of a key, two of the key 8 further on
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int first = 8 * i + n / 2 * 4 + n % 2 * 2;
            pair[n] = transposed(pack_output(factor * sum[first], factor * sum[first + 1]));
        }
        const uint4 bits = chunk_of_quad(pair);
        const int key = 16 * i + lane % 4 / 2 * 8 + lane / 4;
        if (key >= to.count || column >= DIM)
            continue;
        Output *const place = to.first + key * to.stride + column;
        if (chunks) {
            *reinterpret_cast<uint4 *>(place) = bits;
            continue;
        }
        const unsigned pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
            place[e] = static_cast<Output>(pairs[e / 2] >> e % 2 * 16);
    }
    return wants_repeat(sum);
}

// Columns from `first` on.
struct ColumnsFrom {
    int first;
    __device__ __forceinline__ int column_of(int chunk) const { return first + 8 * chunk; }
};

// Finds the nonfinite elements of 16 rows in memory, of which `rows` exist.
template <int COUNT> __device__ __forceinline__ Nonfinite<COUNT> nonfinite_in_memory(const Output *first, long long stride, int rows) {
    static_assert(COUNT <= 32, "a panel at most");
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    Nonfinite<COUNT> nonfinite = {};
#pragma unroll // all loads are in flight at once
    for (int i = 0; i < COUNT; i++) {
        const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        const unsigned element = first[min(row, rows - 1) * stride + column];
        nonfinite.words[0] |= static_cast<unsigned>(row < rows && not_finite(element) != 0) << i;
    }
    return nonfinite;
}

// Recomputes what is not finite of a panel, 16 keys by each warp.
template <bool DK, int WIDTH>
__device__ __forceinline__ void repeat_columns(const attention_backward_params &own, int kv_index, int key0, const GradientRows &of,
                                               int column) {
#pragma unroll 1
    for (int first = static_cast<int>(threadIdx.x) % 128 / 32 * 16; first < min(BLOCK_N, of.count); first += 64) {
        const Nonfinite<WIDTH / 2> nonfinite = nonfinite_in_memory<WIDTH / 2>(of.first + first * of.stride + column, of.stride, of.count - first);
        if constexpr (DK)
            repeat_dk<columns_of_pass(WIDTH)>(own, kv_index, key0 + first, nonfinite, ColumnsFrom{column});
        else
            repeat_dv<columns_of_pass(WIDTH)>(own, kv_index, key0 + first, nonfinite, ColumnsFrom{column});
    }
}
template <bool DK, int DIM>
__device__ __forceinline__ void repeat_panel(const attention_backward_params &own, int kv_index, int key0, const GradientRows &of,
                                             int panel) {
    if (DIM % 64 == 0 || panel < DIM / 64)
        repeat_columns<DK, 64>(own, kv_index, key0, of, 64 * panel);
    else if constexpr (DIM % 64 != 0)
        repeat_columns<DK, DIM % 64>(own, kv_index, key0, of, 64 * panel);
}
