//$ needs head_dim head_dim_v block_m block_n threads threads_m threads_n
//$ include "backward/gradients.cuh"
//$ include "backward/pair.cuh"

// P and dS of a tile of pairs, by multiply-adds from shared memory. The threads form a grid of THREADS_M x THREADS_N; thread (y, x) owns
// elements (y + i THREADS_M, x + j THREADS_N).

constexpr int PER_M = BLOCK_M / THREADS_M, PER_N = BLOCK_N / THREADS_N; // elements of S per thread

// Loads rows first .. first + ROWS - 1 of a tensor; 0 outside.
template <int DIM, int ROWS, int PITCH>
__device__ __forceinline__ void load_rows(float (&tile)[ROWS][PITCH], const Input *tensor, long long row_stride, int first,
                                          int rows) {
    for (int i = threadIdx.x; i < ROWS * (PITCH - 1); i += THREADS) {
        const int row = i / (PITCH - 1), d = i % (PITCH - 1);
        const bool inside = first + row < rows && d < DIM;
        tile[row][d] = inside ? to_float(tensor[(first + row) * row_stride + d]) : 0.0f;
    }
}

// sum[i][j] += over steps: a[y + i THREADS_M][step] b[x + j THREADS_N][step]
template <int STEPS, int ROWS, int PER_ROW, int ROWS_A, int PITCH_A, int ROWS_B, int PITCH_B>
__device__ __forceinline__ void add_products(float (&sum)[ROWS][PER_ROW], const float (&a)[ROWS_A][PITCH_A],
                                             const float (&b)[ROWS_B][PITCH_B], int y, int x) {
#pragma unroll 4
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < PER_ROW; j++)
                sum[i][j] = fmaf(a[y + i * THREADS_M][step], b[x + j * THREADS_N][step], sum[i][j]);
}

// sum += weight * row, for the columns x + j THREADS_N of a row. A weight of 0 is skipped, since the row may hold NaN.
template <int PER_ROW> __device__ __forceinline__ void add_row(float (&sum)[PER_ROW], float weight, const float *row, int x) {
    if (weight != 0)
#pragma unroll
        for (int j = 0; j < PER_ROW; j++)
            sum[j] = fmaf(weight, row[x + j * THREADS_N], sum[j]);
}

// First query and first key of a tile of pairs.
struct TileOfPairs {
    int query0, key0;
};

// True if a query of the tile sees a key of it.
__device__ __forceinline__ bool is_needed(const attention_params &p, const Where &at, TileOfPairs tile) {
    return some_pair_seen(p, at, tile.query0, BLOCK_M, tile.key0, BLOCK_N);
}

// Computes P and dS of this thread's pairs; both are 0 for pairs that are not seen.
__device__ __forceinline__ void form_pairs(PairGradient (&pair)[PER_M][PER_N], const attention_params &p, const Where &at,
                                           const Shared &tile, TileOfPairs of, const float *lse, const float *dots) {
    const int thread = threadIdx.x, y = thread / THREADS_N, x = thread % THREADS_N;
    float s[PER_M][PER_N] = {}, d_weight[PER_M][PER_N] = {};
    add_products<HEAD_DIM>(s, tile.q, tile.k, y, x);
    add_products<HEAD_DIM_V>(d_weight, tile.d_o, tile.v, y, x);
#pragma unroll
    for (int i = 0; i < PER_M; i++)
#pragma unroll
        for (int j = 0; j < PER_N; j++) {
            const int query = of.query0 + y + i * THREADS_M, key = of.key0 + x + j * THREADS_N;
            pair[i][j] = {};
            if (query < p.len_q && key < p.len_kv && sees_pair(p, at, query, key))
                pair[i][j] = pair_gradient(p, at, query, key, p.scale * s[i][j], d_weight[i][j], lse[query], dots[query]);
        }
}

// Stores one number of each pair, P and then dS, to shared memory for the threads of its row or column.
__device__ __forceinline__ void share_pairs(Shared &tile, const PairGradient (&pair)[PER_M][PER_N], float PairGradient::*number, int y,
                                            int x) {
#pragma unroll
    for (int i = 0; i < PER_M; i++)
#pragma unroll
        for (int j = 0; j < PER_N; j++)
            tile.pairs[y + i * THREADS_M][x + j * THREADS_N] = pair[i][j].*number;
}

// sum += pairs^T rows: a row of the sum is a key, a row of `rows` a query.
template <int ROWS, int PER_ROW, int PITCH>
__device__ __forceinline__ void add_rows_of_keys(float (&sum)[ROWS][PER_ROW], const float (&pairs)[BLOCK_M][BLOCK_N + 1],
                                                 const float (&rows)[BLOCK_M][PITCH], int y, int x) {
#pragma unroll 2
    for (int query = 0; query < BLOCK_M; query++)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            add_row(sum[i], pairs[query][y + i * THREADS_M], rows[query], x);
}

// sum += pairs rows: a row of the sum is a query, a row of `rows` a key.
template <int ROWS, int PER_ROW, int PITCH>
__device__ __forceinline__ void add_rows_of_queries(float (&sum)[ROWS][PER_ROW], const float (&pairs)[BLOCK_M][BLOCK_N + 1],
                                                    const float (&rows)[BLOCK_N][PITCH], int y, int x) {
#pragma unroll 2
    for (int key = 0; key < BLOCK_N; key++)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            add_row(sum[i], pairs[y + i * THREADS_M][key], rows[key], x);
}

// Stores factor * sum to the rows of a gradient from `first` on.
template <int DIM, int ROWS, int PER_ROW>
__device__ __forceinline__ void store_sums(Output *to, long long row_stride, int first, int rows, const float (&sum)[ROWS][PER_ROW],
                                           float factor, int y, int x) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int row = first + y + i * THREADS_M;
#pragma unroll
        for (int d = x; d < DIM; d += THREADS_N)
            if (row < rows)
                to[row * row_stride + d] = to_output(factor * sum[i][d / THREADS_N]);
    }
}
