// Attention by tiles with queries on chip: a block keeps BLOCK_M queries and walks over the keys, BLOCK_N at a time.
//
//     for each K/V tile      S = scale Q K^T                      (BLOCK_M, BLOCK_N), in registers
//                                m' = max(m, row maxima of S)
//                                P = e^(S - m')                       (BLOCK_M, BLOCK_N)
//                                l = e^(m - m') l + row sums of P
//                                O = e^(m - m') O + P V               (BLOCK_M, HEAD_DIM_V), in registers
//     O = O / l,  LSE = m + ln l
//
// A warp is LANES_M x LANES_N threads and owns whole rows, so m, l, P and O never leave it. A thread holds THREAD_M rows
// by THREAD_N keys of S and the same rows of O, both sums of outer products of what it reads from shared memory four
// floats (a chunk) at a time. Its rows lie LANES_M apart, its keys and its chunks of O LANES_N apart: lanes side by side
// read rows side by side, and as a row is an odd number of chunks those lie in different banks.
//
// Default sizes are the fastest that were measured (docs/performance-notes.md) among those that fit shared memory.
//$ if target != any and head_dim <= 80 and head_dim_v <= 80
//$ default block_m = 128
//$ default block_n = 64
//$ default thread_m = 8
//$ default thread_n = 8
//$ elif target != any and head_dim <= 128 and head_dim_v <= 128
//$ default block_m = 128
//$ default block_n = 64
//$ default thread_m = 4
//$ default thread_n = 8
//$ elif target != any
//$ default block_m = 64
//$ default block_n = 32
//$ default thread_m = 4
//$ default thread_n = 4
//$ elif head_dim <= 64 and head_dim_v <= 64
//$ default block_m = 64
//$ default block_n = 64
//$ default thread_m = 4
//$ default thread_n = 8
//$ elif head_dim <= 128 and head_dim_v <= 128
//$ default block_m = 64
//$ default block_n = 32
//$ default thread_m = 4
//$ default thread_n = 4
//$ elif head_dim <= 224 and head_dim_v <= 224
//$ default block_m = 32
//$ default block_n = 32
//$ default thread_m = 2
//$ default thread_n = 4
//$ else
//$ default block_m = 32
//$ default block_n = 16
//$ default thread_m = 2
//$ default thread_n = 4
//$ end
//$ tune target in [any, sm_80]
//$ tune block_m in [16, 32, 64, 128, 256]
//$ tune block_n in [16, 32, 64, 128]
//$ tune thread_m in [1, 2, 4, 8]
//$ tune thread_n in [4, 8, 16]
//$ require block_n % thread_n == 0 and thread_n % 4 == 0
//$ let lanes_n = block_n / thread_n
//$ require lanes_n in [4, 8, 16]
//$ let lanes_m = 32 / lanes_n
//$ let warp_rows = lanes_m * thread_m
//$ require block_m % warp_rows == 0
//$ default threads = block_m / warp_rows * 32
//$ require threads == block_m / warp_rows * 32
//$ let chunks = (head_dim + 3) / 4
//$ let pitch = chunks / 2 * 2 + 1
//$ let thread_v = (head_dim_v + 4 * lanes_n - 1) / (4 * lanes_n)
//$ let v_pitch = thread_v * lanes_n
//$ let p_pitch = lanes_n + 4
//$ if target != any
//$ let kv_pitch = pitch + v_pitch
//$ elif pitch > v_pitch
//$ let kv_pitch = pitch
//$ else
//$ let kv_pitch = v_pitch
//$ end
//$ let shared_bytes = 16 * (block_m * (pitch + p_pitch) + block_n * kv_pitch)
//$ let accumulators = thread_m * (thread_n + 4 * thread_v)
//$ require accumulators <= 192
// A thread with up to 64 accumulators gets along with 128 registers, others take what there is.
//$ if accumulators <= 64 and threads <= 512
//$ let blocks_at_once = 512 / threads
//$ elif threads <= 256
//$ let blocks_at_once = 256 / threads
//$ else
//$ let blocks_at_once = 1
//$ end
// Two steps of score() at once hide more latency, where there are registers for it.
//$ if thread_m * thread_n >= 64 or (thread_m * thread_n >= 32 and accumulators <= 64)
//$ let unroll = 1
//$ else
//$ let unroll = 2
//$ end
//$ if mask == custom_mask
//$ if mask_tables > 0
//$ include "expression/tables_launch.cuh"
//$ end
//$ end
//$ launch attention_flash_tiled grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_bytes
//$ include "sequence/head.cuh"
//$ if mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/formula.cuh"
//$ end
//$ include "walk/keys_seen.cuh"
//$ include "load/copy_rows.cuh"
//$ include "fragment/outer_product.cuh"

struct Shared {
    float4 q[BLOCK_M][PITCH];
    float4 p[BLOCK_M][P_PITCH]; // weights of 4 * LANES_N keys, each warp in its own rows
    //$ if target == any
    union { // in turn, for there is little room
        float4 k[BLOCK_N][PITCH];
        float4 v[BLOCK_N][V_PITCH];
    };
    //$ else
    float4 k[BLOCK_N][PITCH];   // comes in while V is used
    float4 v[BLOCK_N][V_PITCH]; // comes in while K is used
    //$ end
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

struct Place {
    int row;  // first row of the thread in the tile; the others are LANES_M apart
    int lane; // its first key in the tile and its first chunk of O; the others are LANES_N apart
};

// Rows alternate between neighbouring lanes. Then for Q as for K, lanes whose numbers differ in bit 0 or in bit 1 alone
// read the same address, and a 128-bit load takes two passes in place of four.
__device__ __forceinline__ Place my_place() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return {warp * WARP_ROWS + lane / (2 * LANES_N) * 2 + lane % 2, lane / 2 % LANES_N};
}

// Over the lanes that share rows; they differ in bit 1 and the following ones.
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
            s[i][j] = 0;
#pragma unroll UNROLL
    for (int d = 0; d < CHUNKS; d++) {
        float4 q[THREAD_M];
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            q[i] = tile.q[at.row + LANES_M * i][d];
#pragma unroll
        for (int j = 0; j < THREAD_N; j++) {
            const float4 k = tile.k[at.lane + LANES_N * j][d];
#pragma unroll
            for (int e = 0; e < 4; e++)
                add_column<LANES_M>(s, j, q, e, element(k, e));
        }
    }
}

// O += P V. P passes through shared memory, LANES_N chunks of four keys at a time; the four lie LANES_N apart, as a thread
// has them.
//$ if mask == custom_mask
// If MASKED, weights below 0 stand for keys that are not seen, whatever V holds there.
//$ else
// If MASKED, keys from `beyond` + LANES_M * i on are not for row i, whatever V holds there.
//$ end
template <bool MASKED>
//$ if mask == custom_mask
__device__ __forceinline__ void weigh(Shared &tile, Place at, const float (&p)[THREAD_M][THREAD_N],
                                      float (&o)[THREAD_M][4 * THREAD_V]) {
//$ else
__device__ __forceinline__ void weigh(Shared &tile, Place at, const float (&p)[THREAD_M][THREAD_N], int beyond,
                                      float (&o)[THREAD_M][4 * THREAD_V]) {
//$ end
#pragma unroll
    for (int j = 0; j < THREAD_N; j += 4) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
            tile.p[at.row + LANES_M * i][at.lane] = make_float4(p[i][j], p[i][j + 1], p[i][j + 2], p[i][j + 3]);
        __syncwarp();
#pragma unroll 2
        for (int n = 0; n < LANES_N; n++) {
            float4 weight[THREAD_M];
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
                weight[i] = tile.p[at.row + LANES_M * i][n];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = (j + e) * LANES_N + n;
#pragma unroll
                for (int c = 0; c < THREAD_V; c++) {
                    const float4 v = tile.v[key][at.lane + LANES_N * c];
#pragma unroll
                    for (int x = 0; x < 4; x++)
                        //$ if mask == custom_mask
                        if constexpr (MASKED)
                            add_seen(o, 4 * c + x, weight, e, element(v, x));
                        else
                            add_column<LANES_M>(o, 4 * c + x, weight, e, element(v, x));
                    //$ else
                        add_column<LANES_M>(o, 4 * c + x, weight, e, element(v, x), MASKED ? key - beyond : -1);
                    //$ end
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_flash_tiled(const __grid_constant__ attention_params p) {
    Shared &tile = *dynamic_shared<Shared>();
    const Place at = my_place();
    const int block = static_cast<int>(blockIdx.x), row_tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M;
    //$ if mask == causal
    const int heads = p.batch * p.heads; // the rows that see most go first: no long block is left for the end
    const int row0 = (row_tiles - 1 - block / heads) * BLOCK_M;
    Head head = head_at(p, block % heads);
    //$ else
    const int row0 = block % row_tiles * BLOCK_M;
    Head head = head_at(p, block / row_tiles);
    //$ end
    const bool q_chunks = in_chunks<Input>(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, HEAD_DIM);
    const bool k_chunks = in_chunks<Input>(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, HEAD_DIM);
    const bool v_chunks = in_chunks<Input>(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, HEAD_DIM_V);
    const bool o_chunks = in_chunks<Output>(p.o, p.o_batch_stride, p.o_head_stride, p.o_row_stride, HEAD_DIM_V);

    //$ if mask == custom_mask or score == custom_score or sinks > 0
    //$ if mask == causal
    const Where where = where_is(p, block % heads);
    //$ else
    const Where where = where_is(p, block / row_tiles);
    //$ end
    const int q_first = position_of(p, row0), q_last = position_of(p, min(row0 + BLOCK_M, p.len_q) - 1);
    //$ end
    //$ if mask == custom_mask
    const Keys range = keys_of(p, where, q_first, q_last);
    const int keys = range.end;
    int key0 = next_needed<BLOCK_N>(p, where, q_first, q_last, range.first, keys);
    head.k += key0 * p.k_row_stride;
    head.v += key0 * p.v_row_stride;
    //$ else
    const int keys = keys_seen(p, min(row0 + BLOCK_M, p.len_q) - 1), keys_of_all = keys_seen(p, row0);
    //$ end
    constexpr float LOG2_E = 1.44269504f; // e^x = 2^(x log2(e)), of differences: a score times this may be infinite

    float o[THREAD_M][4 * THREAD_V], m[THREAD_M], l[THREAD_M]; // l of the thread's own keys, summed up at the end
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        //$ if sinks > 0
        m[i] = tensor_sinks(p, where.h); // takes weight, adds no value
        l[i] = at.lane == 0 ? 1 : 0;
        //$ else
        m[i] = -INFINITY;
        l[i] = 0;
        //$ end
#pragma unroll
        for (int c = 0; c < 4 * THREAD_V; c++)
            o[i][c] = 0;
    }

    //$ if mask == custom_mask
    if (key0 < keys) {
        //$ else
    if (keys > 0) {
        //$ end
        copy_rows<BLOCK_M, CHUNKS, HEAD_DIM>(tile.q, head.q + row0 * p.q_row_stride, p.q_row_stride, p.len_q - row0,
                                             q_chunks);
        //$ if target != any
        //$ if mask == custom_mask
        copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, p.len_kv - key0, k_chunks);
        //$ else
        copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, p.len_kv, k_chunks);
        //$ end
        //$ end
    }
#pragma unroll 1
    //$ if mask == custom_mask
    for (int next; key0 < keys; key0 = next) {
        next = next_needed<BLOCK_N>(p, where, q_first, q_last, key0 + BLOCK_N, keys);
        //$ else
    for (int key0 = 0; key0 < keys; key0 += BLOCK_N) {
        //$ end
        const int left = p.len_kv - key0; // keys from here on
        //$ if target == any
        __syncthreads(); // V has been used
        copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, left, k_chunks);
        //$ end
        copies_wait();
        __syncthreads(); // K is there
        //$ if target != any
        copy_rows<BLOCK_N, V_PITCH, HEAD_DIM_V>(tile.v, head.v, p.v_row_stride, left, v_chunks);
        //$ end

        float s[THREAD_M][THREAD_N];
        score(tile, at, s);
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                //$ if score == custom_score
                s[i][j] = score_of(p, where, min(q_first + at.row + LANES_M * i, q_last),
                                   min(key0 + at.lane + LANES_N * j, p.len_kv - 1), p.scale * s[i][j]);
        //$ else
                s[i][j] *= p.scale;
        //$ end

        //$ if mask == custom_mask
        const bool masked = !is_full<BLOCK_N>(p, where, q_first, q_last, range, key0);
        unsigned seen[THREAD_M] = {}; // bit j: key j of the thread; only where masked
        if (masked) {
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++) {
                    const int key = key0 + at.lane + LANES_N * j;
                    if (key < keys && sees(p, where, min(q_first + at.row + LANES_M * i, q_last), key))
                        seen[i] |= 1u << j;
                    else
                        s[i][j] = -INFINITY;
                }
        }
        //$ else
        const bool masked = key0 + BLOCK_N > keys_of_all; // some row does not see some key of the tile
        if (masked) {
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++)
                    if (key0 + at.lane + LANES_N * j >= keys_seen(p, row0 + at.row + LANES_M * i))
                        s[i][j] = -INFINITY;
        }
        //$ end

#pragma unroll
        for (int i = 0; i < THREAD_M; i++) {
            const float before = m[i];
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                m[i] = fmaxf(m[i], s[i][j]);
            m[i] = row_max(m[i]);
            const float shift = m[i] == -INFINITY ? 0 : m[i]; // as long as no key was seen, P = e^-inf = 0
            const float shrink = exp2_approx((before - shift) * LOG2_E);
            l[i] *= shrink;
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                l[i] += s[i][j] = exp2_approx(__fsub_rn(s[i][j], shift) * LOG2_E);
#pragma unroll
            for (int c = 0; c < 4 * THREAD_V; c++)
                o[i][c] *= shrink;
        }

        //$ if target == any
        __syncthreads(); // K has been used
        copy_rows<BLOCK_N, V_PITCH, HEAD_DIM_V>(tile.v, head.v, p.v_row_stride, left, v_chunks);
        //$ end
        //$ if mask == custom_mask
        head.k += (next - key0) * p.k_row_stride;
        head.v += (next - key0) * p.v_row_stride;
        //$ else
        head.k += BLOCK_N * p.k_row_stride;
        head.v += BLOCK_N * p.v_row_stride;
        //$ end
        copies_wait();
        __syncthreads(); // V is there
        //$ if target != any and mask == custom_mask
        if (next < keys)
            copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, p.len_kv - next, k_chunks);
        //$ elif target != any
        if (key0 + BLOCK_N < keys)
            copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, left - BLOCK_N, k_chunks);
        //$ end

        //$ if mask == custom_mask
        if (masked) {
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++)
                    s[i][j] = seen[i] >> j & 1 ? s[i][j] : -1;
            weigh<true>(tile, at, s, o);
        } else {
            weigh<false>(tile, at, s, o);
        }
        //$ elif mask == causal
        if (masked)
            weigh<true>(tile, at, s, row0 + at.row - p.len_q + left + 1, o);
        else
            weigh<false>(tile, at, s, 0, o);
        //$ else
        weigh<false>(tile, at, s, 0, o);
        //$ end
    }

#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        const long long row = row0 + at.row + LANES_M * i;
        const float sum = row_sum(l[i]), inverse = sum == 0 ? 0 : 1 / sum; // no key seen: O = 0
        if (row >= p.len_q)
            continue;
#pragma unroll
        for (int c = 0; c < THREAD_V; c++) {
            const int column = 4 * (at.lane + LANES_N * c);
            store_chunk(head.o + row * p.o_row_stride + column,
                        make_float4(o[i][4 * c] * inverse, o[i][4 * c + 1] * inverse, o[i][4 * c + 2] * inverse,
                                    o[i][4 * c + 3] * inverse),
                        HEAD_DIM_V - column, o_chunks);
        }
        if (head.lse && at.lane == 0)
            head.lse[row] = m[i] + logf(sum);
    }
}
