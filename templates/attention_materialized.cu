// Attention by the definition, in three launches that pass a len_q x len_kv matrix through global memory:
// S = scale Q K^T, then P = softmax of each row of S (in place), then O = P V. The two products are computed in
// tiles of block_m x block_n, which accumulate in registers, DEPTH at a time, from shared memory. Whatever the speed of the
// products, the matrix is written twice and read three times.
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
//$ include "expression/tables_launch.cuh" if mask == custom_mask and mask_tables > 0
//$ launch attention_scores grid batch * heads * ((len_q + block_m - 1) / block_m) * ((len_kv + block_n - 1) / block_n) block threads shared shared_bytes
//$ launch attention_weights grid (batch * heads * len_q + warps - 1) / warps block threads shared 0
//$ launch attention_output grid batch * heads * ((len_q + block_m - 1) / block_m) * ((head_dim_v + block_n - 1) / block_n) block threads shared shared_bytes
//$ workspace 4 * batch * heads * len_q * len_kv
//$ include "sequence/head.cuh"
//$ include "sequence/input_kv.cuh"
//$ require layout == dense
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "walk/keys_seen.cuh"
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

// The matrix of one head in the workspace: (len_q, len_kv).
__device__ __forceinline__ float *head_matrix(const attention_params &p, long long head) {
    return static_cast<float *>(p.workspace) + head * p.len_q * p.len_kv;
}

// S = scale Q K^T; one block a tile.
extern "C" __global__ void __launch_bounds__(THREADS) attention_scores(const __grid_constant__ attention_params p) {
    Operands &tile = *dynamic_shared<Operands>();
    int tiles_m = (p.len_q + BLOCK_M - 1) / BLOCK_M, tiles_n = (p.len_kv + BLOCK_N - 1) / BLOCK_N;
    int query0 = blockIdx.x / tiles_n % tiles_m * BLOCK_M, key0 = blockIdx.x % tiles_n * BLOCK_N;
    long long index = blockIdx.x / tiles_n / tiles_m;
    Head head = head_at(p, index);
    int thread = threadIdx.x, y = thread / THREADS_N, x = thread % THREADS_N;
    //$ if mask == causal
    if (key0 >= keys_seen(p, min(query0 + BLOCK_M, p.len_q) - 1))
        return; // not even the last query of the tile sees its first key
    //$ end
    const Where at = where_is(p, index); //$ if mask == custom_mask or score == custom_score
    //$ if mask == custom_mask
    if (!some_seen(p, at, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1), key0,
                   min(key0 + BLOCK_N, p.len_kv) - 1))
        return;
    //$ end

    float sum[PER_M][PER_N] = {};
    for (int d0 = 0; d0 < HEAD_DIM; d0 += DEPTH) {
        for (int i = thread; i < BLOCK_M * DEPTH; i += THREADS) { // a = Q[query0 ..][d0 ..], 0 outside
            int query = query0 + i / DEPTH, d = d0 + i % DEPTH;
            bool inside = query < p.len_q && d < HEAD_DIM;
            tile.a[i / DEPTH][i % DEPTH] = inside ? to_float(head.q[query * p.q_row_stride + d]) : 0.0f;
        }
        for (int i = thread; i < BLOCK_N * DEPTH; i += THREADS) { // b = K[key0 ..][d0 ..], 0 outside
            int key = key0 + i / DEPTH, d = d0 + i % DEPTH;
            bool inside = key < p.len_kv && d < HEAD_DIM;
            tile.b[i / DEPTH][i % DEPTH] = inside ? to_float(head.k[key * p.k_row_stride + d]) : 0.0f;
        }
        __syncthreads();
        for (int step = 0; step < DEPTH; step++) {
#pragma unroll
            for (int i = 0; i < PER_M; i++)
#pragma unroll
                for (int j = 0; j < PER_N; j++)
                    sum[i][j] = fmaf(tile.a[y + i * THREADS_M][step], tile.b[x + j * THREADS_N][step], sum[i][j]);
        }
        __syncthreads(); // all threads have used the operands
    }

    //$ if kv_scale != none
#pragma unroll
    for (int j = 0; j < PER_N; j++) {
        const int key = min(key0 + x + j * THREADS_N, p.len_kv - 1);
#pragma unroll
        for (int i = 0; i < PER_M; i++)
            sum[i][j] *= head.k_scale[key * p.k_scale_row_stride];
    }
    //$ end
    float *scores = head_matrix(p, index);
#pragma unroll
    for (int i = 0; i < PER_M; i++) {
        int query = query0 + y + i * THREADS_M;
#pragma unroll
        for (int j = 0; j < PER_N; j++) {
            int key = key0 + x + j * THREADS_N;
            if (query < p.len_q && key < p.len_kv)
                //$ if score == custom_score
                scores[static_cast<long long>(query) * p.len_kv + key] =
                    score_of(p, at, position_of(p, query), key, p.scale * sum[i][j]);
            //$ else
                scores[static_cast<long long>(query) * p.len_kv + key] = p.scale * sum[i][j];
            //$ end
        }
    }
}

// P = softmax of each row of S, in place; one warp a row. Keys that are not seen have no weight, not even 0.
extern "C" __global__ void __launch_bounds__(THREADS) attention_weights(const __grid_constant__ attention_params p) {
    long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32; // (batch, head, query) in one
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    Head head = head_at(p, row / p.len_q);
    int query = static_cast<int>(row % p.len_q), lane = threadIdx.x % 32;
    const Where at = where_is(p, row / p.len_q); //$ if mask == custom_mask or sinks > 0
    //$ if mask == custom_mask
    const int position = position_of(p, query);
    const Keys keys = keys_of(p, at, position, position);
    //$ else
    int seen = keys_seen(p, query);
    //$ end
    float *score = head_matrix(p, 0) + row * p.len_kv; // (len_kv), then the weights

    // m = max s,  l = sum exp(s - m)
    SoftmaxState state = softmax_of_nothing();
    //$ if mask == custom_mask
    for (int key = keys.first + lane; key < keys.end; key += 32)
        if (sees(p, at, position, key))
            state = softmax_join(state, softmax_of(score[key]));
    //$ else
    for (int key = lane; key < seen; key += 32)
        state = softmax_join(state, softmax_of(score[key]));
    //$ end
    state = lanes_reduce<32, SoftmaxState, softmax_join>(state);
    state = softmax_join(state, softmax_of(tensor_sinks(p, at.h))); // a sink has weight and no value //$ if sinks > 0

    // p = exp(s - m) / l
    //$ if mask == custom_mask
    for (int key = keys.first + lane; key < keys.end; key += 32)
        if (sees(p, at, position, key))
            score[key] = softmax_normalize(softmax_weight(score[key], state.max), state);
    //$ else
    for (int key = lane; key < seen; key += 32)
        score[key] = softmax_normalize(softmax_weight(score[key], state.max), state);
    //$ end

    if (head.lse && lane == 0)
        head.lse[query] = softmax_lse(state);
}

// O = P V / (1 - dropout_p), with 0 for the weights that are dropped; one block a tile. //$ if dropout == 1
// O = P V; one block a tile.                                                            //$ else
extern "C" __global__ void __launch_bounds__(THREADS) attention_output(const __grid_constant__ attention_params p) {
    Operands &tile = *dynamic_shared<Operands>();
    constexpr int TILES_N = (HEAD_DIM_V + BLOCK_N - 1) / BLOCK_N;
    int tiles_m = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    int query0 = blockIdx.x / TILES_N % tiles_m * BLOCK_M, d0 = blockIdx.x % TILES_N * BLOCK_N;
    long long index = blockIdx.x / TILES_N / tiles_m;
    Head head = head_at(p, index);
    const float *weights = head_matrix(p, index);
    int thread = threadIdx.x, y = thread / THREADS_N, x = thread % THREADS_N;
    //$ if mask == custom_mask
    const Where at = where_is(p, index);
    const Keys range =
        keys_of(p, at, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1));
    int keys = range.end;
    //$ else
    int keys = keys_seen(p, min(query0 + BLOCK_M, p.len_q) - 1); // the last query of the tile sees the most keys
    //$ end

    const Dropout dropout = dropout_of(p, index); //$ if dropout == 1

    float sum[PER_M][PER_N] = {};
    //$ if mask == custom_mask
    for (int key0 = range.first; key0 < keys; key0 += DEPTH) {
        if (!some_seen(p, at, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1), key0,
                       min(key0 + DEPTH, p.len_kv) - 1))
            continue;
    //$ else
    for (int key0 = 0; key0 < keys; key0 += DEPTH) {
    //$ end
        for (int i = thread; i < BLOCK_M * DEPTH; i += THREADS) { // a = P[query0 ..][key0 ..], 0 outside
            int query = query0 + i / DEPTH, key = key0 + i % DEPTH;
            //$ if mask == custom_mask
            bool inside = query < p.len_q && key < keys && sees(p, at, position_of(p, query), key);
            //$ else
            bool inside = query < p.len_q && key < keys_seen(p, query);
            //$ end
            inside = inside && keeps_pair(dropout, query, key); //$ if dropout == 1
            //$ if kv_scale != none
            tile.a[i / DEPTH][i % DEPTH] = inside ? weights[static_cast<long long>(query) * p.len_kv + key] *
                                                        head.v_scale[key * p.v_scale_row_stride] : 0.0f;
            //$ else
            tile.a[i / DEPTH][i % DEPTH] = inside ? weights[static_cast<long long>(query) * p.len_kv + key] : 0.0f;
            //$ end
        }
        for (int i = thread; i < BLOCK_N * DEPTH; i += THREADS) { // b = V[key0 ..][d0 ..] transposed, 0 outside
            int key = key0 + i / BLOCK_N, d = d0 + i % BLOCK_N;
            bool inside = key < keys && d < HEAD_DIM_V;
            tile.b[i % BLOCK_N][i / BLOCK_N] = inside ? to_float(head.v[key * p.v_row_stride + d]) : 0.0f;
        }
        __syncthreads();
        for (int step = 0; step < DEPTH; step++) {
#pragma unroll
            for (int i = 0; i < PER_M; i++) {
                //$ if mask == causal
                if (key0 + step >= keys_seen(p, query0 + y + i * THREADS_M))
                    continue; // a weight of 0 would not do: 0 times NaN is NaN
                //$ elif mask == custom_mask
                const int query = query0 + y + i * THREADS_M, key = key0 + step;
                if (query >= p.len_q || key >= keys || !sees(p, at, position_of(p, query), key))
                    continue; // a weight of 0 would not do: 0 times NaN is NaN
                //$ end
#pragma unroll
                for (int j = 0; j < PER_N; j++)
                    sum[i][j] = fmaf(tile.a[y + i * THREADS_M][step], tile.b[x + j * THREADS_N][step], sum[i][j]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < PER_M; i++) {
        int query = query0 + y + i * THREADS_M;
#pragma unroll
        for (int j = 0; j < PER_N; j++) {
            int d = d0 + x + j * THREADS_N;
            if (query < p.len_q && d < HEAD_DIM_V)
                head.o[query * p.o_row_stride + d] = to_output(p.dropout_factor * sum[i][j]); //$ if dropout == 1
                head.o[query * p.o_row_stride + d] = to_output(sum[i][j]);                    //$ else
        }
    }
}
