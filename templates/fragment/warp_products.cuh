//$ needs block_m block_n columns_v row_tiles q_steps chunks chunks_v q_in bfloat16
//$ include "fragment/weights.cuh"

// The products of a warp, for 16 rows of each of its ROW_TILES units: each operand it reads from K and V serves all units. Operands
// are read one step ahead of their use.

//$ if q_in == q_registers
// Q of the warp's rows, 16 columns per step.
struct Queries {
    unsigned pairs[Q_STEPS][ROW_TILES][4];
    __device__ __forceinline__ SharedAddress first(unsigned) const { return 0; }
    __device__ __forceinline__ void operand(unsigned (&a)[ROW_TILES][4], SharedAddress, int step) const {
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[r][i] = pairs[step][r][i];
    }
};
//$ else
// Q stays in shared memory.
struct Queries {
    const Rows16<BLOCK_M, CHUNKS> &rows;
    __device__ __forceinline__ SharedAddress first(unsigned thread) const { return first_query_step(rows, thread); }
    __device__ __forceinline__ void operand(unsigned (&a)[ROW_TILES][4], SharedAddress first, int step) const {
        load_query_step(a, first, step);
    }
};
//$ end

// S (16, KEYS) = Q K^T, for each unit and the KEYS keys of the tile from FIRST on.
template <int FIRST = 0, int KEYS = BLOCK_N>
__device__ __forceinline__ void multiply_scores(UnitRows (&units)[ROW_TILES], const Queries &q,
                                                const Rows16<BLOCK_N, CHUNKS> &k, unsigned thread) {
    const unsigned lane = thread % 32;
    const SharedAddress query = q.first(thread), first_key = k.address(lane / 16 * 8 + lane % 8, lane % 16 / 8);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = FIRST / 2; i < (FIRST + KEYS) / 2; i++)
            units[r].s[i] = 0;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++) {
        unsigned a[ROW_TILES][4];
        q.operand(a, query, step);
#pragma unroll
        for (int n = FIRST / 16; n < (FIRST + KEYS) / 16; n++) {
            unsigned b[4];
            load_matrices_at(b, k.beyond(first_key, 16 * n, 2 * step)); // 16 columns of 16 keys
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                float(&s)[BLOCK_N / 2] = units[r].s;
                mma<BFLOAT16>(s[8 * n], s[8 * n + 1], s[8 * n + 2], s[8 * n + 3], a[r], b[0], b[1]);
                mma<BFLOAT16>(s[8 * n + 4], s[8 * n + 5], s[8 * n + 6], s[8 * n + 7], a[r], b[2], b[3]);
            }
        }
    }
}

// O (16, COLUMNS_V) += P V, for each unit and these keys.
template <int FIRST = 0, int KEYS = BLOCK_N>
__device__ __forceinline__ void multiply_output(UnitRows (&units)[ROW_TILES], const Weights (&p)[ROW_TILES],
                                                const Rows16<BLOCK_N, CHUNKS_V> &v, unsigned thread) {
    const unsigned lane = thread % 32;
    const SharedAddress first_key = v.address(lane % 16, lane / 16);
#pragma unroll
    for (int keys = FIRST / 16; keys < (FIRST + KEYS) / 16; keys++)
#pragma unroll
        for (int j = 0; j < CHUNKS_V / 2; j++) {
            unsigned b[4];
            load_matrices_transposed(b, v.beyond(first_key, 16 * keys, 2 * j)); // 16 columns of 16 keys
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                float(&o)[COLUMNS_V / 2] = units[r].o;
                mma<BFLOAT16>(o[8 * j], o[8 * j + 1], o[8 * j + 2], o[8 * j + 3], p[r].pairs[keys], b[0], b[1]);
                if (8 * j + 4 < COLUMNS_V / 2) // with an odd number of 8-column groups, the last step has only half
                    mma<BFLOAT16>(o[8 * j + 4], o[8 * j + 5], o[8 * j + 6], o[8 * j + 7], p[r].pairs[keys], b[2], b[3]);
            }
        }
}
