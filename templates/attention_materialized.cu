// Attention by the definition, in three launches that pass a len_q x len_kv matrix through global memory:
// S = scale Q K^T, then P = softmax of each row of S (in place), then O = P V. The two products are computed in
// tiles of block_m x block_n, which accumulate in registers, DEPTH at a time, from shared memory. However fast the products
// are, the matrix is written twice and read three times.
//$ require layout == dense
//$ default block_m = 64
//$ default block_n = 64
//$ default threads = 256
//$ tune block_m in [32, 64, 128]
//$ tune block_n in [32, 64, 128]
//$ tune threads in [128, 256, 512]
//$ let depth = 32
//$ let threads_n = 16
//$ let threads_m = threads / threads_n
//$ require threads % 32 == 0
//$ require block_m % threads_m == 0
//$ require block_n % threads_n == 0
//$ require block_m * block_n <= 64 * threads
//$ let shared_bytes = 4 * (block_m + block_n) * (depth + 1)
//$ let warps = threads / 32
//$ let expressions = mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ launch attention_scores grid batch * heads * ((len_q + block_m - 1) / block_m) * ((len_kv + block_n - 1) / block_n) block threads shared shared_bytes
//$ launch attention_weights grid (batch * heads * len_q + warps - 1) / warps block threads shared 0
//$ launch attention_output grid batch * heads * ((len_q + block_m - 1) / block_m) * ((head_dim_v + block_n - 1) / block_n) block threads shared shared_bytes
//$ workspace 4 * batch * heads * len_q * len_kv
//$ include "sequence/head.cuh"
//$ include "sequence/input_kv.cuh"
//$ include "load/key_rows.cuh"
//$ include "expression/formula.cuh" if expressions
//$ include "fragment/softmax.cuh"
//$ include "fragment/dropout.cuh" if dropout == 1

// Operands of one step of a product: C[m][n] += sum over x of a[m][x] b[n][x]. The row length is odd, so threads that
// read down a column access different banks.
struct Operands {
    float a[BLOCK_M][DEPTH + 1];
    float b[BLOCK_N][DEPTH + 1];
};
static_assert(sizeof(Operands) == SHARED_BYTES, "as in the launch directive");

// The threads form a THREADS_M x THREADS_N grid over the tile; thread (y, x) sums elements (y + i THREADS_M, x + j THREADS_N).
constexpr int PER_M = BLOCK_M / THREADS_M, PER_N = BLOCK_N / THREADS_N;

// Position of a thread in that grid.
struct Place {
    int y, x;
};

// A tile of a product: BLOCK_M queries of one head by BLOCK_N columns, which are keys or elements of V.
struct Tile {
    long long index; // batch * heads + head
    int query0, column0;
    Where where; //$ if mask == custom_mask or score == custom_score
};

// Returns the tile of this block; one block per tile.
__device__ __forceinline__ Tile tile_of_block(const attention_params &p, int columns) {
    const int tiles_m = (p.len_q + BLOCK_M - 1) / BLOCK_M, tiles_n = (columns + BLOCK_N - 1) / BLOCK_N;
    Tile tile;
    tile.index = blockIdx.x / tiles_n / tiles_m;
    tile.query0 = blockIdx.x / tiles_n % tiles_m * BLOCK_M;
    tile.column0 = blockIdx.x % tiles_n * BLOCK_N;
    tile.where = where_is(p, tile.index); //$ if mask == custom_mask or score == custom_score
    return tile;
}
//$ include "walk/seen_in_tile_custom.cuh" if mask == custom_mask else "walk/seen_in_tile_builtin.cuh"

// The matrix of one head in the workspace: (len_q, len_kv).
__device__ __forceinline__ float *head_matrix(const attention_params &p, long long head) {
    return static_cast<float *>(p.workspace) + head * p.len_q * p.len_kv;
}

// Loads ROWS rows of Q or K from row `first` on, DEPTH columns from d0 on. Elements beyond `rows` or HEAD_DIM are 0.
template <int ROWS, typename Element>
__device__ __forceinline__ void load_rows(float (&tile)[ROWS][DEPTH + 1], const Element *tensor, long long row_stride, int first,
                                          int rows, int d0) {
    for (int i = threadIdx.x; i < ROWS * DEPTH; i += THREADS) {
        const int row = first + i / DEPTH, d = d0 + i % DEPTH;
        const bool inside = row < rows && d < HEAD_DIM;
        tile[i / DEPTH][i % DEPTH] = inside ? to_float(tensor[row * row_stride + d]) : 0.0f;
    }
}

// C += a b^T for the elements of this thread.
__device__ __forceinline__ void multiply(const Operands &operands, const Place &at, float (&sum)[PER_M][PER_N]) {
    for (int step = 0; step < DEPTH; step++)
#pragma unroll
        for (int i = 0; i < PER_M; i++)
#pragma unroll
            for (int j = 0; j < PER_N; j++)
                sum[i][j] = fmaf(operands.a[at.y + i * THREADS_M][step], operands.b[at.x + j * THREADS_N][step], sum[i][j]);
}

// Turns products into scores and stores them in the matrix of the head.
__device__ __forceinline__ void store_scores(const attention_params &p, const Head &head, const Tile &tile, const Place &at,
                                             const float (&sum)[PER_M][PER_N]) {
    float *scores = head_matrix(p, tile.index);
#pragma unroll
    for (int j = 0; j < PER_N; j++) {
        const int key = tile.column0 + at.x + j * THREADS_N;
        if (key >= p.len_kv)
            continue;
        const float scale = p.scale * key_scale(p, head, key); //$ if kv_scale != none
        const float scale = p.scale;                           //$ else
#pragma unroll
        for (int i = 0; i < PER_M; i++) {
            const int query = tile.query0 + at.y + i * THREADS_M;
            if (query >= p.len_q)
                continue;
            float s = scale * sum[i][j];
            s = score_of(p, tile.where, position_of(p, query), key, s); //$ if score == custom_score
            scores[static_cast<long long>(query) * p.len_kv + key] = s;
        }
    }
}

// S = scale Q K^T; one block per tile.
extern "C" __global__ void __launch_bounds__(THREADS) attention_scores(const __grid_constant__ attention_params p) {
    Operands &operands = *dynamic_shared<Operands>();
    const Tile tile = tile_of_block(p, p.len_kv);
    const Head head = head_at(p, tile.index);
    if (!sees_some_key(p, tile, tile.column0, BLOCK_N)) return; // no score of such a tile is read //$ if mask != none
    const int thread = threadIdx.x;
    const Place at = {thread / THREADS_N, thread % THREADS_N};
    float sum[PER_M][PER_N] = {};
    for (int d0 = 0; d0 < HEAD_DIM; d0 += DEPTH) {
        load_rows(operands.a, head.q, p.q_row_stride, tile.query0, p.len_q, d0);
        load_rows(operands.b, head.k, p.k_row_stride, tile.column0, p.len_kv, d0);
        __syncthreads();
        multiply(operands, at, sum);
        __syncthreads(); // all threads have used the operands
    }
    store_scores(p, head, tile, at, sum);
}

// P = softmax of each row of S, in place; one warp per row. For unseen keys no weight is written, not even 0.
extern "C" __global__ void __launch_bounds__(THREADS) attention_weights(const __grid_constant__ attention_params p) {
    const long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32; // linear index of (batch, head, query)
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    const long long index = row / p.len_q; // batch * heads + head
    const int query = static_cast<int>(row % p.len_q), lane = threadIdx.x % 32;
    const Head head = head_at(p, index);
    const Where at = where_is(p, index); //$ if mask == custom_mask or sinks > 0
    const int position = position_of(p, query);           //$ if mask == custom_mask
    const Keys keys = keys_of(p, at, position, position); //$ if mask == custom_mask
    const Keys keys = keys_of(p, query);                  //$ else
    float *score = head_matrix(p, 0) + row * p.len_kv; // (len_kv), then the weights

    // m = max s,  l = sum exp(s - m)
    SoftmaxState state = softmax_of_nothing();
    for (int key = keys.first + lane; key < keys.end; key += 32) {
        if (!sees(p, at, position, key)) continue; //$ if mask == custom_mask
        state = softmax_join(state, softmax_of(score[key]));
    }
    state = lanes_reduce<32, SoftmaxState, softmax_join>(state);
    state = softmax_join(state, softmax_of(tensor_sinks(p, at.h))); // a sink has weight and no value //$ if sinks > 0

    // p = exp(s - m) / l
    for (int key = keys.first + lane; key < keys.end; key += 32) {
        if (!sees(p, at, position, key)) continue; //$ if mask == custom_mask
        score[key] = softmax_normalize(softmax_weight(score[key], state.max), state);
    }

    if (head.lse && lane == 0)
        head.lse[query] = softmax_lse(state);
}

// Loads b = V[key0 ..][column0 ..] transposed, 0 outside.
__device__ __forceinline__ void load_values(const attention_params &p, const Head &head, const Tile &tile, int key0, int key_end,
                                            Operands &operands) {
    for (int i = threadIdx.x; i < BLOCK_N * DEPTH; i += THREADS) {
        const int key = key0 + i / BLOCK_N, d = tile.column0 + i % BLOCK_N;
        const bool inside = key < key_end && d < HEAD_DIM_V;
        operands.b[i % BLOCK_N][i / BLOCK_N] = inside ? to_float(head.v[key * p.v_row_stride + d]) : 0.0f;
    }
}

// Stores the sums as O.
__device__ __forceinline__ void store_output(const attention_params &p, const Head &head, const Tile &tile, const Place &at,
                                             float (&sum)[PER_M][PER_N]) {
#pragma unroll
    for (int i = 0; i < PER_M; i++) {
        const int query = tile.query0 + at.y + i * THREADS_M;
#pragma unroll
        for (int j = 0; j < PER_N; j++) {
            const int d = tile.column0 + at.x + j * THREADS_N;
            sum[i][j] *= p.dropout_factor; //$ if dropout == 1
            if (query < p.len_q && d < HEAD_DIM_V)
                head.o[query * p.o_row_stride + d] = to_output(sum[i][j]);
        }
    }
}

// C += a b^T only for keys that a query sees. A weight of 0 is not enough: 0 times NaN is NaN.
__device__ __forceinline__ void multiply_seen(const attention_params &p, const Tile &tile, const Operands &operands,
                                              const Place &at, int key0, float (&sum)[PER_M][PER_N]) {
    for (int step = 0; step < DEPTH; step++)
#pragma unroll
        for (int i = 0; i < PER_M; i++) {
            if (!sees_key(p, tile, tile.query0 + at.y + i * THREADS_M, key0 + step))
                continue;
#pragma unroll
            for (int j = 0; j < PER_N; j++)
                sum[i][j] = fmaf(operands.a[at.y + i * THREADS_M][step], operands.b[at.x + j * THREADS_N][step], sum[i][j]);
        }
}

// O = P V; one block per tile.
// Dropout sets some weights to 0 and divides the others by 1 - dropout_p. //$ if dropout == 1
extern "C" __global__ void __launch_bounds__(THREADS) attention_output(const __grid_constant__ attention_params p) {
    Operands &operands = *dynamic_shared<Operands>();
    const Tile tile = tile_of_block(p, HEAD_DIM_V);
    const Head head = head_at(p, tile.index);
    const Keys keys = keys_of_tile(p, tile);
    const Dropout dropout = dropout_of(p, tile.index); //$ if dropout == 1
    const float *weights = head_matrix(p, tile.index);
    const Place at = {static_cast<int>(threadIdx.x / THREADS_N), static_cast<int>(threadIdx.x % THREADS_N)};

    float sum[PER_M][PER_N] = {};
    for (int key0 = keys.first; key0 < keys.end; key0 += DEPTH) {
        if (!sees_some_key(p, tile, key0, DEPTH)) continue; //$ if mask == custom_mask
        for (int i = threadIdx.x; i < BLOCK_M * DEPTH; i += THREADS) { // a = P[query0 ..][key0 ..], 0 outside
            const int query = tile.query0 + i / DEPTH, key = key0 + i % DEPTH;
            bool inside = query < p.len_q && sees_key(p, tile, query, key);
            inside = inside && keeps_pair(dropout, query, key); //$ if dropout == 1
            float weight = inside ? weights[static_cast<long long>(query) * p.len_kv + key] : 0.0f;
            if (inside) weight *= value_scale(p, head, key); //$ if kv_scale != none
            operands.a[i / DEPTH][i % DEPTH] = weight;
        }
        load_values(p, head, tile, key0, keys.end, operands);
        __syncthreads();
        multiply_seen(p, tile, operands, at, key0, sum); //$ if mask != none
        multiply(operands, at, sum);                     //$ else
        __syncthreads();
    }
    store_output(p, head, tile, at, sum);
}
