// Attention, tiled: a block keeps BLOCK_M queries on chip and walks over the keys, BLOCK_N at a time.
//
//     for each tile of keys:   S  = scale log2(e) Q K^T          BLOCK_M x BLOCK_N, in registers
//                              m' = max(m, row maxima of S)
//                              P  = 2^(S - m')                   BLOCK_M x BLOCK_N
//                              l  = 2^(m - m') l + row sums of P
//                              O  = 2^(m - m') O + P V           BLOCK_M x HEAD_DIM_V, in registers
//     O = O / l,  LSE = m ln 2 + ln l
//
// A warp is LANES_M x LANES_N threads and owns whole rows, so maxima, sums, P and O never leave it. A thread holds
// THREAD_M rows by THREAD_N keys of S and the same rows of O, sums of outer products of what it reads from shared memory
// four floats (a chunk) at a time. Its rows are LANES_M apart, its keys and its chunks of O LANES_N apart: lanes side by
// side read rows side by side, and with an odd number of chunks to a row those lie in different banks.
//$ if head_dim <= 64 and head_dim_v <= 64
//$ default thread_m = 8
//$ else
//$ default thread_m = 4
//$ end
//$ default thread_n = 8
//$ default block_m = 64
//$ default block_n = 64
//$ default threads = block_m * block_n / (thread_m * thread_n)
//$ require block_n % thread_n == 0 and thread_n % 4 == 0
//$ let lanes_n = block_n / thread_n
//$ require lanes_n in [4, 8, 16]
//$ let lanes_m = 32 / lanes_n
//$ let warp_rows = thread_m * lanes_m
//$ require block_m % warp_rows == 0
//$ require threads == block_m / warp_rows * 32
//$ let chunks = (head_dim + 3) / 4
//$ let chunk_stride = chunks / 2 * 2 + 1
//$ let thread_v = ((head_dim_v + 3) / 4 + lanes_n - 1) / lanes_n
//$ let v_chunks = thread_v * lanes_n
//$ let p_chunks = lanes_n + 4
//$ let q_bytes = block_m * chunk_stride * 16
//$ let p_bytes = block_m * p_chunks * 16
//$ if target != any
//$ let kv_bytes = block_n * (chunk_stride + v_chunks) * 16
//$ elif chunk_stride > v_chunks
//$ let kv_bytes = block_n * chunk_stride * 16
//$ else
//$ let kv_bytes = block_n * v_chunks * 16
//$ end
//$ let shared_bytes = q_bytes + p_bytes + kv_bytes
//$ if thread_m * (thread_n + 4 * thread_v) <= 64
//$ let resident = 512
//$ else
//$ let resident = 256
//$ end
//$ if threads > resident
//$ let blocks = 1
//$ else
//$ let blocks = resident / threads
//$ end
//$ launch attention grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_bytes
//$ include "params/attention.h"
//$ include "part/copy_rows.cuh"
//$ include "part/outer_product.cuh"

struct Shared {
    float4 q[BLOCK_M][CHUNK_STRIDE];
    float4 p[BLOCK_M][P_CHUNKS]; // the weights of 4 * LANES_N keys; a warp writes and reads its own rows only
//$ if target == any
    union { // in turn, because there is not much
        float4 k[BLOCK_N][CHUNK_STRIDE];
        float4 v[BLOCK_N][V_CHUNKS];
    };
//$ else
    float4 k[BLOCK_N][CHUNK_STRIDE]; // the next K comes in while V is read, and the other way round
    float4 v[BLOCK_N][V_CHUNKS];
//$ end
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

struct Place {
    int row;    // the first row of a thread in the tile; rows row + LANES_M * i are its own
    int lane_n; // its first key in the tile and its first chunk of O
};

// Lanes 2l and 2l + 1 stand below each other: a 128-bit load takes half as long when lanes with equal addresses are
// neighbours in the lowest two bits, and so they are both for rows and for keys.
__device__ __forceinline__ Place my_place() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return {warp * WARP_ROWS + lane / (2 * LANES_N) * 2 + lane % 2, lane / 2 % LANES_N};
}

// The lanes that share rows differ in these bits of their number.
__device__ __forceinline__ float row_max(float x) {
#pragma unroll
    for (int bit = 2; bit < 2 * LANES_N; bit *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
    return x;
}

__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
    for (int bit = 2; bit < 2 * LANES_N; bit *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, bit);
    return x;
}

// S = Q K^T
__device__ __forceinline__ void score(const Shared &tile, Place at, float (&s)[THREAD_M][THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            s[i][j] = 0.0f;
#if QK_MODE == 0
#pragma unroll UNROLL_QK
    for (int d = 0; d < CHUNKS; d++) {
        float4 q[THREAD_M];
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            q[i] = tile.q[at.row + LANES_M * i][d];
#pragma unroll
        for (int j = 0; j < THREAD_N; j++) {
            const float4 k = tile.k[at.lane_n + LANES_N * j][d];
#pragma unroll
            for (int e = 0; e < 4; e++)
                add_column(s, j, q, e, element(k, e));
        }
    }
#else
    float4 q[THREAD_M], k = tile.k[at.lane_n][0];
#pragma unroll
    for (int i = 0; i < THREAD_M; i++)
        q[i] = tile.q[at.row + LANES_M * i][0];
#pragma unroll UNROLL_QK
    for (int d = 0; d < CHUNKS; d++) {
        const int next = min(d + 1, CHUNKS - 1);
#pragma unroll
        for (int j = 0; j < THREAD_N - 1; j++) {
            const float4 k_next = tile.k[at.lane_n + LANES_N * (j + 1)][d];
#pragma unroll
            for (int e = 0; e < 4; e++)
                add_column(s, j, q, e, element(k, e));
            k = k_next;
        }
        const float4 k_next = tile.k[at.lane_n][next];
#pragma unroll
        for (int i = 0; i < THREAD_M; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[i][THREAD_N - 1] = fmaf(element(q[i], e), element(k, e), s[i][THREAD_N - 1]);
            q[i] = tile.q[at.row + LANES_M * i][next];
        }
        k = k_next;
    }
#endif
}

// O += P V. P goes through shared memory, LANES_N chunks of keys LANES_N apart at a time. In a boundary tile row i adds
// nothing for the keys from `seen` + LANES_M * i on, whatever V holds.
template <bool BOUNDARY>
__device__ __forceinline__ void weigh(Shared &tile, Place at, const float (&p)[THREAD_M][THREAD_N], int seen,
                                      float (&o)[THREAD_M][4 * THREAD_V]) {
#pragma unroll
    for (int j = 0; j < THREAD_N; j += 4) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            tile.p[at.row + LANES_M * i][at.lane_n] = make_float4(p[i][j], p[i][j + 1], p[i][j + 2], p[i][j + 3]);
        __syncwarp();
#pragma unroll UNROLL_PV
        for (int n = 0; n < LANES_N; n++) {
            float4 weights[THREAD_M];
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
                weights[i] = tile.p[at.row + LANES_M * i][n];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = (j + e) * LANES_N + n;
#pragma unroll
                for (int c = 0; c < THREAD_V; c++) {
                    const float4 v = tile.v[key][at.lane_n + LANES_N * c];
#pragma unroll
                    for (int x = 0; x < 4; x++)
                        add_column(o, 4 * c + x, weights, e, element(v, x), BOUNDARY ? key - seen : -1);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const attention_params p) {
    Shared &tile = *dynamic_shared<Shared>();
    const Place at = my_place();
    const int block = static_cast<int>(blockIdx.x), row_tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
//$ if mask == causal
    const int sequence = block % (p.batch * p.heads); // long rows first, so that no block starts late and ends last
    const int row0 = (row_tiles - 1 - block / (p.batch * p.heads)) * BLOCK_M;
//$ else
    const int sequence = block / row_tiles, row0 = block % row_tiles * BLOCK_M;
//$ end
    const int b = sequence / p.heads, head = sequence % p.heads, kv_head = head / (p.heads / p.kv_heads);
    const Input *q = static_cast<const Input *>(p.q) + b * p.q_batch_stride + head * p.q_head_stride;
    const Input *k = static_cast<const Input *>(p.k) + b * p.k_batch_stride + kv_head * p.k_head_stride;
    const Input *v = static_cast<const Input *>(p.v) + b * p.v_batch_stride + kv_head * p.v_head_stride;
    const bool q_chunks = in_chunks<Input>(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, HEAD_DIM);
    const bool k_chunks = in_chunks<Input>(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, HEAD_DIM);
    const bool v_chunks = in_chunks<Input>(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, HEAD_DIM_V);

//$ if mask == causal
    const int seen = row0 + 1 + p.len_kv - p.len_q; // row r of the tile sees the keys before seen + r
    const int keys = min(p.len_kv, seen + min(BLOCK_M, p.len_q - row0) - 1), seen_by_all = min(p.len_kv, seen);
//$ else
    const int keys = p.len_kv, seen_by_all = p.len_kv;
//$ end
    const float scale = p.scale * 1.44269504f; // 2^(x log2(e)) = e^x

    float o[THREAD_M][4 * THREAD_V], max[THREAD_M], sum[THREAD_M]; // sum: over the keys of this thread only
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        max[i] = -INFINITY;
        sum[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < 4 * THREAD_V; c++)
            o[i][c] = 0.0f;
    }

    copy_rows<BLOCK_M, HEAD_DIM, CHUNKS>(tile.q, q + row0 * p.q_row_stride, p.q_row_stride, p.len_q - row0, q_chunks);
//$ if target != any
    copy_rows<BLOCK_N, HEAD_DIM, CHUNKS>(tile.k, k, p.k_row_stride, p.len_kv, k_chunks);
//$ end
#pragma unroll 1
    for (int key0 = 0; key0 < keys; key0 += BLOCK_N) {
        const bool boundary = key0 + BLOCK_N > seen_by_all;
        const int left = p.len_kv - key0;
//$ if target == any
        __syncthreads(); // V has been read
        copy_rows<BLOCK_N, HEAD_DIM, CHUNKS>(tile.k, k, p.k_row_stride, left, k_chunks);
//$ end
        copies_wait();
        __syncthreads(); // K is there
//$ if target != any
        copy_rows<BLOCK_N, HEAD_DIM_V, V_CHUNKS>(tile.v, v, p.v_row_stride, left, v_chunks);
//$ end
        k += BLOCK_N * p.k_row_stride;

        float s[THREAD_M][THREAD_N];
        score(tile, at, s);
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                s[i][j] *= scale;
        if (boundary) {
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++) {
                    const int key = key0 + at.lane_n + LANES_N * j;
//$ if mask == causal
                    if (key >= p.len_kv || key >= seen + at.row + LANES_M * i)
//$ else
                    if (key >= p.len_kv)
//$ end
                        s[i][j] = -INFINITY;
                }
        }

#pragma unroll
        for (int i = 0; i < THREAD_M; i++) {
            float top = max[i];
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                top = fmaxf(top, s[i][j]);
            top = row_max(top);
            const float shift = top == -INFINITY ? 0.0f : top; // no key seen yet: all weights 2^-inf = 0
            const float shrink = exp2_approx(max[i] - shift);
            max[i] = top;
            sum[i] *= shrink;
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                sum[i] += s[i][j] = exp2_approx(s[i][j] - shift);
#pragma unroll
            for (int c = 0; c < 4 * THREAD_V; c++)
                o[i][c] *= shrink;
        }

//$ if target == any
        __syncthreads(); // K has been read
        copy_rows<BLOCK_N, HEAD_DIM_V, V_CHUNKS>(tile.v, v, p.v_row_stride, left, v_chunks);
//$ end
        copies_wait();
        __syncthreads(); // V is there
//$ if target != any
        if (key0 + BLOCK_N < keys)
            copy_rows<BLOCK_N, HEAD_DIM, CHUNKS>(tile.k, k, p.k_row_stride, left - BLOCK_N, k_chunks);
//$ end
        v += BLOCK_N * p.v_row_stride;
//$ if mask == causal
        if (boundary)
            weigh<true>(tile, at, s, seen + at.row - key0, o);
        else
//$ end
            weigh<false>(tile, at, s, 0, o);
    }

    Output *out = static_cast<Output *>(p.o) + b * p.o_batch_stride + head * p.o_head_stride;
    const bool o_chunks = in_chunks<Output>(p.o, p.o_batch_stride, p.o_head_stride, p.o_row_stride, HEAD_DIM_V);
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        const float total = row_sum(sum[i]), inverse = total == 0.0f ? 0.0f : 1.0f / total;
        const int row = row0 + at.row + LANES_M * i;
        if (row >= p.len_q)
            continue;
#pragma unroll
        for (int c = 0; c < THREAD_V; c++) {
            const int column = 4 * (at.lane_n + LANES_N * c);
            const float4 x = make_float4(o[i][4 * c] * inverse, o[i][4 * c + 1] * inverse, o[i][4 * c + 2] * inverse,
                                         o[i][4 * c + 3] * inverse);
            store_chunk(out + row * p.o_row_stride + column, x, HEAD_DIM_V - column, o_chunks);
        }
        if (p.lse && at.lane_n == 0)
            p.lse[b * p.lse_batch_stride + head * p.lse_head_stride + row] = max[i] * 0.693147181f + logf(total);
    }
}
