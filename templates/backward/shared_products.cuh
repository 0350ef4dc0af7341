//$ needs bfloat16 warp_queries
//$ include "load/pieces.cuh"

// Products of tiles in shared memory, of which a warp computes 32 rows.

template <int TILES, int COUNT> __device__ __forceinline__ void clear(float (&sum)[TILES][COUNT]) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (float &value : sum[t])
            value = 0;
}

// sum (32, 16 COLUMNS) += a (32, 16 STEPS) b. load_a(a, step) loads operand a of a step, and load_b(b, step, n) loads operand b of 16
// columns, AHEAD products of 16 columns before its use.
template <int STEPS, int COLUMNS, typename LoadA, typename LoadB>
__device__ __forceinline__ void add_steps(float (&sum)[2][8 * COLUMNS], LoadA load_a, LoadB load_b) {
    constexpr int AHEAD = 2, COUNT = STEPS * COLUMNS;
    unsigned a[2][2][4], b[AHEAD + 1][4];
    load_a(a[0], 0);
#pragma unroll
    for (int i = 0; i < AHEAD && i < COUNT; i++)
        load_b(b[i], i / COLUMNS, i % COLUMNS);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int step = i / COLUMNS, n = i % COLUMNS, next = i + AHEAD;
        if (n == 0 && step + 1 < STEPS)
            load_a(a[(step + 1) % 2], step + 1);
        if (next < COUNT)
            load_b(b[next % (AHEAD + 1)], next / COLUMNS, next % COLUMNS);
#pragma unroll
        for (int t = 0; t < 2; t++) {
            float *s = &sum[t][8 * n];
            const unsigned(&of)[4] = b[i % (AHEAD + 1)];
            mma<BFLOAT16>(s[0], s[1], s[2], s[3], a[step % 2][t], of[0], of[1]);
            mma<BFLOAT16>(s[4], s[5], s[6], s[7], a[step % 2][t], of[2], of[3]);
        }
    }
}

// sum (32, 2 COUNT) = own other^T, for rows of 16 STEPS elements, from own_row and other_row on.
template <int STEPS, int COUNT, int OWN_ROWS, int ROWS, int WIDTH>
__device__ __forceinline__ void multiply_shared_rows(float (&sum)[2][COUNT], const Rows16<OWN_ROWS, WIDTH> &own, int own_row,
                                                     const Rows16<ROWS, WIDTH> &other, int other_row) {
    const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
    const SharedAddress first_own = own.address(own_row + lane % 16, lane / 16);
    const SharedAddress first_other = other.address(other_row + lane / 16 * 8 + lane % 8, lane % 16 / 8);
    clear(sum);
    add_steps<STEPS, COUNT / 8>(
        sum,
        [&](unsigned(&a)[2][4], int step) {
            load_matrices_at(a[0], own.beyond(first_own, 0, 2 * step));
            load_matrices_at(a[1], own.beyond(first_own, 16, 2 * step));
        },
        [&](unsigned(&b)[4], int step, int n) { load_matrices_at(b, other.beyond(first_other, 16 * n, 2 * step)); });
}

// The columns of warp `part` among SHARERS warps that share a product: COLUMNS neighbours if COLUMNS is 16 times a power of two, otherwise
// every SHARERS-th group of 16. Either way, no bit of a step's number is set in the number of the first chunk (Rows16::beyond).
template <int SHARERS, int COLUMNS> struct Share {
    static constexpr int STEPS = COLUMNS / 16, STRIDE = (STEPS & (STEPS - 1)) == 0 ? 1 : SHARERS; // from step to step
    static_assert(STRIDE == 1 || (SHARERS & (SHARERS - 1)) == 0, "as said");
    static constexpr int NEIGHBOURS = STRIDE == 1 ? COLUMNS : 16;
    int part;

    // Returns the address of the warp's first columns in 16 rows from `row` on, for operand b.
    template <int ROWS, int WIDTH> __device__ __forceinline__ SharedAddress address(const Rows16<ROWS, WIDTH> &tile, int row) const {
        const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
        return tile.address(row + lane % 16, column_of(0) / 8 + lane / 16);
    }
    // Returns the address of the columns of a step, `row` rows further down.
    template <int ROWS, int WIDTH>
    static __device__ __forceinline__ SharedAddress beyond(const Rows16<ROWS, WIDTH> &tile, SharedAddress first, int row, int step) {
        return tile.beyond(first, row, 2 * STRIDE * step);
    }
    // Returns the first of the 8 columns of the warp's chunk.
    __device__ __forceinline__ int column_of(int chunk) const {
        return part * 16 * (STRIDE == 1 ? STEPS : 1) + chunk / 2 * 16 * STRIDE + chunk % 2 * 8;
    }
};

// sum (32, 2 COUNT) += a (32, K) b (K, 2 COUNT), both in shared memory: a from a_row and a_column on, stored as (K, 32) if TRANSPOSED;
// b from b_row on, in the columns of `share`.
template <int K, bool TRANSPOSED, int SHARERS, int COUNT, int A_ROWS, int A_WIDTH, int ROWS, int WIDTH>
__device__ __forceinline__ void add_product_of_shared(float (&sum)[2][COUNT], const Rows16<A_ROWS, A_WIDTH> &own, int a_row,
                                                      int a_column, const Rows16<ROWS, WIDTH> &other, int b_row,
                                                      Share<SHARERS, 2 * COUNT> share) {
    const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
    const SharedAddress first = TRANSPOSED ? own.address(a_row + lane / 16 * 8 + lane % 8, a_column / 8 + lane % 16 / 8)
                                           : own.address(a_row + lane % 16, a_column / 8 + lane / 16);
    const SharedAddress first_other = share.address(other, b_row);
    add_steps<K / 16, COUNT / 8>(
        sum,
        [&](unsigned(&a)[2][4], int step) {
#pragma unroll
            for (int t = 0; t < 2; t++)
                if constexpr (TRANSPOSED)
                    load_matrices_transposed(a[t], own.beyond(first, 16 * step, 2 * t));
                else
                    load_matrices_at(a[t], own.beyond(first, 16 * t, 2 * step));
        },
        [&](unsigned(&b)[4], int step, int n) { load_matrices_transposed(b, share.beyond(other, first_other, 16 * step, n)); });
}

// The same with a in registers, (32, 16 STEPS).
template <int STEPS, int SHARERS, int COUNT, int ROWS, int WIDTH>
__device__ __forceinline__ void add_product_of_registers(float (&sum)[2][COUNT], const unsigned (&pairs)[2][STEPS][4],
                                                         const Rows16<ROWS, WIDTH> &other, int b_row,
                                                         Share<SHARERS, 2 * COUNT> share) {
    const SharedAddress first_other = share.address(other, b_row);
    add_steps<STEPS, COUNT / 8>(
        sum,
        [&](unsigned(&a)[2][4], int step) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                a[i / 4][i % 4] = pairs[i / 4][step][i % 4];
        },
        [&](unsigned(&b)[4], int step, int n) { load_matrices_transposed(b, share.beyond(other, first_other, 16 * step, n)); });
}

// Accumulators (32, WARP_QUERIES) -> 16 bits, as operand a.
__device__ __forceinline__ void pack_tile(unsigned (&pairs)[2][WARP_QUERIES / 16][4], const float (&value)[2][WARP_QUERIES / 2]) {
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int i = 0; i < WARP_QUERIES / 4; i++)
            pairs[t][i / 4][i % 4] = pack<BFLOAT16>(value[t][2 * i], value[t][2 * i + 1]);
}

// Stores operands to a tile, from row `row` and column `column` on.
template <int ROWS, int WIDTH>
__device__ __forceinline__ void store_tile(Rows16<ROWS, WIDTH> &tile, int row, int column, const unsigned (&pairs)[2][WARP_QUERIES / 16][4]) {
    const unsigned lane = static_cast<unsigned>(opaque(threadIdx.x)) % 32;
    const SharedAddress first = tile.address(row + lane / 4, column / 8) + lane % 4 * 4;
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int i = 0; i < WARP_QUERIES / 4; i++) // chunk i / 2, row 8 * (i % 2)
            store_word(tile.beyond(first, 16 * t + i % 2 * 8, i / 2), pairs[t][i / 4][i % 4]);
}
