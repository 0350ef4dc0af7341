//$ needs block_n
//$ include "backward/repeat_keys.cuh"
//$ include "target/sm_90_store_transposed.cuh"

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

// Stores a panel of 64 columns, of which a warpgroup holds the transpose (64 columns, BLOCK_N keys), times a factor. Each warp holds 16 of
// the columns, and transposes them in shared memory, 16 keys at a time: then two lanes store a key's 16 columns, 16 bytes each. Returns
// whether a sum of this warp is not finite.
template <int DIM>
__device__ __forceinline__ bool store_panel(const float (&sum)[BLOCK_N / 2], float factor, const GradientRows &to, int panel,
                                            unsigned short (&transposed)[16][16]) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    const int column = 64 * panel + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane % 2 * 8;
    const bool chunks = to.stride % 8 == 0 && reinterpret_cast<unsigned long long>(to.first) % 16 == 0;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 16; i++) {
        unsigned pair[4]; // two keys each: of the first eight keys, columns lane / 4 and lane / 4 + 8; then of the last eight
#pragma unroll
        for (int n = 0; n < 4; n++)
            pair[n] = pack_output(factor * sum[8 * i + 2 * n], factor * sum[8 * i + 2 * n + 1]);
        __syncwarp(); // the 16 keys before have been read
        store_matrices_transposed(&transposed[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8], pair[0], pair[1], pair[2], pair[3]);
        __syncwarp();
        const uint4 bits = *reinterpret_cast<const uint4 *>(&transposed[lane / 2][lane % 2 * 8]);
        const int key = 16 * i + lane / 2;
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
