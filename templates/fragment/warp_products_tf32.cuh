//$ needs block_m block_n row_tiles q_steps chunks chunks_v precision
//$ include "load/pieces.cuh"

// The products of a warp in TF32, for 16 rows of each of its ROW_TILES units: operands have 11 significant bits. Under `tf32x3` each
// operand is the sum of two such parts, and all products of parts are computed except that of the two smaller ones (3xTF32).

// P (16, BLOCK_N), in the layout of S. Element 4 i + e is for key 8 i + 2 (lane % 4) + e % 2; the order of the keys that one step
// multiplies does not matter, as long as V has the same order.
struct Weights {
    float weight[BLOCK_N / 2];
};
__device__ __forceinline__ void keep_weights(const float (&s)[BLOCK_N / 2], Weights &p) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        p.weight[i] = s[i];
}

// Q stays in shared memory.
struct Queries {
    const Rows16<BLOCK_M, CHUNKS> &rows;
};

//$ if precision == tf32x3
// An operand of COUNT registers per thread: the large parts are the upper 11 significant bits, the small parts are the remainders,
// rounded to 11 bits. Tensor cores ignore the lower 13 bits of a register.
template <int COUNT> struct Operand {
    unsigned large[COUNT], small[COUNT];
    __device__ __forceinline__ void set(int i, float x) {
        large[i] = static_cast<unsigned>(__float_as_int(x)) & 0xffffe000;
        small[i] = static_cast<unsigned>(__float_as_int(x - __int_as_float(static_cast<int>(large[i])))) + 0x1000;
    }
};

// sum (16, 8) += a (16, 8) b (8, 8), with b from elements b[first] and the next. Small products come first.
template <int COUNT>
__device__ __forceinline__ void multiply_step(float (&sum)[4], const Operand<4> &a, const Operand<COUNT> &b, int first) {
    mma_tf32(sum, a.small, b.large[first], b.large[first + 1]);
    mma_tf32(sum, a.large, b.small[first], b.small[first + 1]);
    mma_tf32(sum, a.large, b.large[first], b.large[first + 1]);
}
//$ else
// An operand of COUNT registers per thread.
template <int COUNT> struct Operand {
    unsigned large[COUNT];
    __device__ __forceinline__ void set(int i, float x) { large[i] = to_tf32(x); }
};

// sum (16, 8) += a (16, 8) b (8, 8), with b from elements b[first] and the next.
template <int COUNT>
__device__ __forceinline__ void multiply_step(float (&sum)[4], const Operand<4> &a, const Operand<COUNT> &b, int first) {
    mma_tf32(sum, a.large, b.large[first], b.large[first + 1]);
}
//$ end

__device__ __forceinline__ void set_operand(Operand<4> &to, const unsigned (&bits)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        to.set(i, __int_as_float(static_cast<int>(bits[i])));
}

// S (16, BLOCK_N) = Q K^T, for each unit.
__device__ __forceinline__ void multiply_scores(UnitRows (&units)[ROW_TILES], const Queries &q,
                                                const Rows16<BLOCK_N, CHUNKS> &k, unsigned thread) {
    const unsigned lane = thread % 32;
    const SharedAddress query = first_query_step(q.rows, thread), first_key = k.address(lane / 16 * 8 + lane % 8, lane % 16 / 8);
    float sum[ROW_TILES][BLOCK_N / 8][4] = {};
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++) {
        unsigned bits[ROW_TILES][4];
        load_query_step(bits, query, step);
        Operand<4> a[ROW_TILES];
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            set_operand(a[r], bits[r]);
#pragma unroll
        for (int n = 0; n < BLOCK_N / 16; n++) {
            unsigned keys[4];
            Operand<4> b;
            load_matrices_at(keys, k.beyond(first_key, 16 * n, 2 * step)); // 8 columns of 16 keys
            set_operand(b, keys);
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int r = 0; r < ROW_TILES; r++)
                    multiply_step(sum[r][2 * n + half], a[r], b, 2 * half);
        }
    }
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++)
            units[r].s[i] = sum[r][i / 4][i % 4];
}

// O (16, COLUMNS_V) += P V, for each unit. The sum of a tile begins at 0 and is added to O at the end of the tile: an addition rounds,
// while the tensor core truncates, and the truncation errors would accumulate over the tiles.
__device__ __forceinline__ void multiply_output(UnitRows (&units)[ROW_TILES], const Weights (&p)[ROW_TILES],
                                                const Rows16<BLOCK_N, CHUNKS_V> &v, unsigned thread) {
    const unsigned lane = thread % 32;
    const SharedAddress even = v.address(lane % 4 * 2, lane / 16) + lane / 4 % 4 * 4;
    const SharedAddress odd = v.address(lane % 4 * 2 + 1, lane / 16) + lane / 4 % 4 * 4;
    Operand<4> a[ROW_TILES][BLOCK_N / 8];
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++) // rows 8 apart, then the second key
            a[r][i / 4].set(i % 4 / 2 + i % 2 * 2, p[r].weight[i]);
#pragma unroll
    for (int j = 0; j < CHUNKS_V / 2; j++) { // 8 columns
        float sum[ROW_TILES][4] = {};
#pragma unroll
        for (int keys = 0; keys < BLOCK_N / 8; keys++) {
            Operand<2> b;
            b.set(0, load_float(v.beyond(even, 8 * keys, 2 * j)));
            b.set(1, load_float(v.beyond(odd, 8 * keys, 2 * j)));
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                multiply_step(sum[r], a[r][keys], b, 0);
        }
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                units[r].o[4 * j + i] += sum[r][i];
    }
}
