// Attention by tiles on Hopper, with every unit of the SM at work at once: FlashAttention-3 (arXiv 2407.08608, section 3).
//
//     producer, one warp      copies tiles of Q, K and V into shared memory, STAGES ahead of their use
//     consumers, warpgroups   64 queries each: S = Q K^T on the matrix unit, softmax in registers, O += P V on the matrix unit
//
// Barriers hand the tiles over: `full` when the bytes are there, `empty` when all consumers are done with them. The matrix
// unit works asynchronously, so S of the next tile is multiplied while the softmax of this one is computed.
//$ require target == sm_90a
//$ require dtype != fp32
//$ require head_dim % 8 == 0
//$ require head_dim_v % 8 == 0
//$ if head_dim <= 64 and head_dim_v <= 64
//$ default block_m = 192
//$ default block_n = 128
//$ elif head_dim <= 128 and head_dim_v <= 128
//$ default block_m = 128
//$ default block_n = 128
//$ elif head_dim <= 192 and head_dim_v <= 192
//$ default block_m = 128
//$ default block_n = 96
//$ else
//$ default block_m = 128
//$ default block_n = 80
//$ end
//$ default stages = 2
//$ default overlap = within
//$ default rescale = lazy
//$ default tile_order = sections
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128, 192]
//$ tune block_n in [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
//$ tune stages in [1, 2, 3, 4]
//$ require block_m in [64, 128, 192]
//$ require block_n % 16 == 0
//$ let consumers = block_m / 64
//$ let scores_ahead = overlap == within or overlap == both
//$ let in_turns = overlap == ping_pong or overlap == both
//$ require not in_turns or consumers == 2
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ if panels_v > panels
//$ let q_panels = panels_v
//$ else
//$ let q_panels = panels
//$ end
//$ let k_bytes = panels * block_n * 128
//$ let v_bytes = panels_v * block_n * 128
//$ let q_bytes = q_panels * block_m * 128
//$ let shared_bytes = (q_bytes + stages * (k_bytes + v_bytes + 32) + 8 + 1023) / 1024 * 1024
//$ let block_threads = 128 * (consumers + 1)
//$ launch attention_flash_async grid (len_q + block_m - 1) / block_m * heads * batch block block_threads shared shared_bytes
//$ tensor_map q rows block_m cols 64
//$ tensor_map k rows block_n cols 64
//$ tensor_map v rows block_n cols 64
//$ if dtype_out != fp32
//$ tensor_map o rows 64 cols 64
//$ end
//$ if consumers == 1
//$ let producer_registers = 56
//$ let consumer_registers = 256
//$ elif consumers == 2
//$ let producer_registers = 24
//$ let consumer_registers = 240
//$ else
//$ let producer_registers = 32
//$ let consumer_registers = 160
//$ end
// What a consumer thread holds: O, S, P as 16-bit pairs, and about 32 more.
//$ require block_n / 2 + block_n / 4 + head_dim_v / 2 + 32 <= consumer_registers
//$ include "params/attention_tma.h"
//$ include "part/element.cuh"
//$ include "part/mask.cuh"
//$ if mask == causal
//$ include "part/head.cuh"
//$ include "part/reduce.cuh"
//$ end
//$ include "part/tile_order.cuh"
//$ include "target/sm_90a.cuh"

// A tile of 16-bit elements lies in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by the copy unit.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

struct alignas(1024) Shared {
    Panels<Q_PANELS, BLOCK_M> q; // O leaves through here too
    Panels<PANELS, BLOCK_N> k[STAGES];
    Panels<PANELS_V, BLOCK_N> v[STAGES];
    Barrier k_full[STAGES], v_full[STAGES], k_empty[STAGES], v_empty[STAGES], q_full;
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

// The position in the ring of stages after `count` tiles.
struct Ring {
    int count;
    __device__ __forceinline__ int stage() const { return count % STAGES; }
    __device__ __forceinline__ int parity() const { return count / STAGES & 1; }
};

// One past the last key that any query below `query_end` sees, which may be past the end of Q.
__device__ __forceinline__ int keys_end(const attention_params &p, int query_end) {
    return min(p.len_kv, keys_seen(p, query_end - 1));
}

__device__ __forceinline__ void produce(const attention_tma_params &p, Shared &shared, Tile tile, int tiles) {
    barrier_expect(&shared.q_full, PANELS * BLOCK_M * 128);
    for (int panel = 0; panel < PANELS; panel++)
        tma_load(shared.q[panel], &p.q_map, &shared.q_full, panel * 64, tile.query, tile.head, tile.batch);
    for (Ring ring = {0}; ring.count < tiles; ring.count++) { // last tile of keys first: it is the one with a mask
        int stage = ring.stage(), key = (tiles - 1 - ring.count) * BLOCK_N;
        barrier_wait(&shared.k_empty[stage], ring.parity() ^ 1);
        barrier_expect(&shared.k_full[stage], K_BYTES);
        for (int panel = 0; panel < PANELS; panel++)
            tma_load(shared.k[stage][panel], &p.k_map, &shared.k_full[stage], panel * 64, key, tile.kv_head, tile.batch);
        barrier_wait(&shared.v_empty[stage], ring.parity() ^ 1);
        barrier_expect(&shared.v_full[stage], V_BYTES);
        for (int panel = 0; panel < PANELS_V; panel++)
            tma_load(shared.v[stage][panel], &p.v_map, &shared.v_full[stage], panel * 64, key, tile.kv_head, tile.batch);
    }
}

// An accumulator of wgmma, (64, N) over the 128 threads of a warpgroup: thread t holds, of rows 16 (t / 32) + t % 32 / 4
// and 8 further down, columns 8 i + 2 (t % 4) and the next, in elements 4 i, 4 i + 1 and 4 i + 2, 4 i + 3.

// S (64, BLOCK_N) = Q K^T, 16 columns of Q and K a step; issued, not finished.
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], unsigned long long q, unsigned long long k) {
#pragma unroll
    for (int step = 0; step < (HEAD_DIM + 15) / 16; step++)
        wgmma_ss<BLOCK_N, BFLOAT16>(s, q + step / 4 * (BLOCK_M * 128 / 16) + step % 4 * 2,
                                    k + step / 4 * (BLOCK_N * 128 / 16) + step % 4 * 2, step != 0);
}

// O (64, HEAD_DIM_V) += P V, 16 keys a step; issued, not finished.
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const unsigned (&p)[BLOCK_N / 16][4],
                                                unsigned long long v) {
#pragma unroll
    for (int step = 0; step < BLOCK_N / 16; step++)
        wgmma_rs<HEAD_DIM_V, BFLOAT16>(o, p[step], v + step * (16 * 128 / 16));
}

// The two rows of a thread: what the softmax has seen of them so far.
struct Rows {
    float max[2]; // m: largest score, before scaling
    float sum[2]; // l: this thread's share of the sum of 2^((s - m) c)
    float keep[2]; // what the last tile left of O: 2^((m_before - m) c)
    bool grown;    // some row of the warp has keep != 1
};

// s = 2^((s - m) c), with c = scale log2(e): the exponential as one multiply-add and one instruction.
__device__ __forceinline__ void softmax_tile(float (&s)[BLOCK_N / 2], Rows &rows, float c) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        // m' = max(m, max s), over this thread's columns, then over the four lanes of the row
        float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
        for (int i = 4; i < BLOCK_N / 2; i += 4)
            even = fmaxf(even, s[i + 2 * r]), odd = fmaxf(odd, s[i + 2 * r + 1]);
        float max = fmaxf(even, odd);
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
        rows.keep[r] = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2)); // for now: the tile's maximum
    }
    //$ if rescale == lazy
    // O follows the maximum only when that grew by more than 2^8: until then weights are at most 2^8 too large, which
    // the sum divides out again, and fp32 has room for.
    rows.grown = __any_sync(0xffffffffu, !(fmaxf(rows.keep[0] - rows.max[0], rows.keep[1] - rows.max[1]) * c <= 8));
    if (rows.grown)
    //$ end
#pragma unroll
        for (int r = 0; r < 2; r++) {
            // keep = 2^((m - m') c). As long as all scores are -INFINITY, 0 takes the place of m'.
            float max = fmaxf(rows.max[r], rows.keep[r]), finite = max == -INFINITY ? 0 : max;
            rows.keep[r] = exp2_approx((rows.max[r] - finite) * c);
            rows.max[r] = max;
            rows.sum[r] *= rows.keep[r];
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float shift = rows.max[r] == -INFINITY ? 0 : -rows.max[r] * c, even = 0, odd = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_N / 2; i += 4) {
            even += s[i] = exp2_approx(fmaf(s[i], c, shift));
            odd += s[i + 1] = exp2_approx(fmaf(s[i + 1], c, shift));
        }
        rows.sum[r] += even + odd;
    }
}

// P as operand of the next product: its fragments are pairs of S's, in the same thread.
__device__ __forceinline__ void pack_weights(const float (&s)[BLOCK_N / 2], unsigned (&p)[BLOCK_N / 16][4]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; i++)
        p[i / 4][i % 4] = pack<BFLOAT16>(s[2 * i], s[2 * i + 1]);
}

// s = -INFINITY for keys from `end[row]` on.
__device__ __forceinline__ void mask_tile(float (&s)[BLOCK_N / 2], int key, const int (&end)[2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++)
        if (key + 8 * (i / 4) + i % 2 >= end[i / 2 % 2])
            s[i] = -INFINITY;
}

__device__ __forceinline__ void rescale(float (&o)[HEAD_DIM_V / 2], const Rows &rows) {
    //$ if rescale == lazy
    if (rows.grown)
    //$ end
#pragma unroll
        for (int i = 0; i < HEAD_DIM_V / 2; i++)
            o[i] *= rows.keep[i / 2 % 2];
}

//$ if mask == causal
// A weight of 0 keeps out every number but NaN and infinity: 0 times those is NaN. So a row of O that is not finite may
// have it from the value of a key it does not see, and is done over by the definition, one seen key at a time. All lanes
// of the warp share the products q.k; the four lanes of the row sum up its values.
__device__ __forceinline__ void repeat_rows(const attention_params &p, Tile tile, int query, float c,
                                            float (&o)[HEAD_DIM_V / 2], Rows &rows) {
    Head head = head_at(p, static_cast<long long>(tile.batch) * p.heads + tile.head);
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        bool finite = true;
#pragma unroll
        for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
            finite &= fabsf(o[i]) < INFINITY && fabsf(o[i + 1]) < INFINITY;
        unsigned odd = __ballot_sync(0xffffffffu, !finite);
        for (int g = 0; g < 8 && odd; g++) { // lanes 4 g .. 4 g + 3 hold row g
            int again = __shfl_sync(0xffffffffu, query + 8 * r, 4 * g), seen = keys_end(p, again + 1);
            if (!(odd >> 4 * g & 15) || again >= p.len_q)
                continue;
            float max = -INFINITY, sum = 0;
            if (lane / 4 == g)
#pragma unroll
                for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
                    o[i] = o[i + 1] = 0;
            for (int key = 0; key < seen; key++) {
                float s = 0;
                for (int d = lane; d < HEAD_DIM; d += 32)
                    s = fmaf(to_float(head.q[again * p.q_row_stride + d]), to_float(head.k[key * p.k_row_stride + d]), s);
                s = lanes_sum<32>(s);
                float higher = fmaxf(max, s), shift = higher == -INFINITY ? 0 : higher;
                float keep = exp2_approx((max - shift) * c), weight = exp2_approx((s - shift) * c);
                max = higher;
                sum = sum * keep + weight;
                const Input *value = head.v + key * p.v_row_stride + lane % 4 * 2;
                if (lane / 4 == g)
#pragma unroll
                    for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4) {
                        o[i] = fmaf(weight, to_float(value[i / 4 * 8]), o[i] * keep);
                        o[i + 1] = fmaf(weight, to_float(value[i / 4 * 8 + 1]), o[i + 1] * keep);
                    }
            }
            if (lane / 4 == g) {
                rows.max[r] = max;
                rows.sum[r] = lane % 4 == 0 ? sum : 0; // the four lanes' shares are added up below
            }
        }
    }
}
//$ end

// All threads of the warpgroup are done with a stage.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}

// O / l -> global, from the accumulators of one warpgroup.
__device__ __forceinline__ void store_output(const attention_tma_params &p, Shared &shared, Tile tile, int consumer,
                                             const float (&o)[HEAD_DIM_V / 2], const float (&scale)[2]) {
    int lane = threadIdx.x % 32, warp = warp_index() % 4;
    //$ if dtype_out == fp32
    for (int r = 0; r < 2; r++) {
        int query = tile.query + consumer * 64 + warp * 16 + lane / 4 + 8 * r;
        float *row = static_cast<float *>(p.attention.o) + tile.batch * p.attention.o_batch_stride +
                     tile.head * p.attention.o_head_stride + query * p.attention.o_row_stride + lane % 4 * 2;
        if (query < p.attention.len_q)
#pragma unroll
            for (int i = 0; i < HEAD_DIM_V / 8; i++)
                *reinterpret_cast<float2 *>(row + 8 * i) =
                    make_float2(o[4 * i + 2 * r] * scale[r], o[4 * i + 2 * r + 1] * scale[r]);
    }
    //$ else
    // Through shared memory, over this warpgroup's rows of Q, so that whole rows leave at once.
    named_barrier_sync(4 + consumer, 128); // all of its products have read Q
    int row = consumer * 64 + warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < HEAD_DIM_V / 2; i += 8) { // 16 columns: two chunks of 16 bytes
        int chunk = i / 4 % 8 + lane / 16, j = (i + 4) % (HEAD_DIM_V / 2);
        bool second = i + 4 < HEAD_DIM_V / 2;
        store_matrices(&shared.q[i / 32][row][(chunk ^ row % 8) * 8],
                       pack<BFLOAT16_OUT>(o[i] * scale[0], o[i + 1] * scale[0]),
                       pack<BFLOAT16_OUT>(o[i + 2] * scale[1], o[i + 3] * scale[1]),
                       second ? pack<BFLOAT16_OUT>(o[j] * scale[0], o[j + 1] * scale[0]) : 0,
                       second ? pack<BFLOAT16_OUT>(o[j + 2] * scale[1], o[j + 3] * scale[1]) : 0);
    }
    fence_async();
    named_barrier_sync(4 + consumer, 128);
    if (warp == 0 && elect_one()) {
        for (int panel = 0; panel < PANELS_V; panel++)
            tma_store(&p.o_map, shared.q[panel][consumer * 64], panel * 64, tile.query + consumer * 64, tile.head,
                      tile.batch);
        tma_store_commit();
        tma_store_wait_read(); // shared memory lives until then
    }
    //$ end
}

__device__ __forceinline__ void consume(const attention_tma_params &p, Shared &shared, Tile tile, int tiles,
                                        int consumer) {
    const attention_params &a = p.attention;
    int lane = threadIdx.x % 32, query = tile.query + consumer * 64 + warp_index() % 4 * 16 + lane / 4;
    int end[2] = {keys_end(a, query + 1), keys_end(a, query + 9)};    // keys the two rows of this thread see
    int whole = keys_end(a, tile.query + consumer * 64 + 1) / BLOCK_N; // tiles below are seen by all rows
    float c = a.scale * 1.44269504f;
    unsigned long long q = matrix_descriptor(shared.q[0][consumer * 64], 0), k = matrix_descriptor(shared.k[0], 0),
                       v = matrix_descriptor(shared.v[0], BLOCK_N * 128);

    float s[BLOCK_N / 2], o[HEAD_DIM_V / 2];
    unsigned weights[BLOCK_N / 16][4];
    Rows rows = {{-INFINITY, -INFINITY}, {0, 0}, {1, 1}, false};
#pragma unroll
    for (float &value : o)
        value = 0;
    Ring ring = {0};
    //$ if in_turns
    if (consumer == 1)
        named_barrier_arrive(1, 256); // warpgroup 0 goes first
    //$ elif mask == causal
    // Tiles that only later warpgroups see. Their bytes are waited for, or a stage could be given back a round early.
    for (int seen = (keys_end(a, tile.query + consumer * 64 + 64) + BLOCK_N - 1) / BLOCK_N; tiles > seen; tiles--, ring.count++) {
        barrier_wait(&shared.k_full[ring.stage()], ring.parity());
        release(&shared.k_empty[ring.stage()]);
        barrier_wait(&shared.v_full[ring.stage()], ring.parity());
        release(&shared.v_empty[ring.stage()]);
    }
    //$ end
    barrier_wait(&shared.q_full, 0);

    //$ if scores_ahead
    // S of the first tile, then rounds of: S of the next tile and O += P V of this one, both at once.
    if (tiles > 0) {
        barrier_wait(&shared.k_full[ring.stage()], ring.parity());
        //$ if in_turns
        named_barrier_sync(1 + consumer, 256);
        //$ end
        wgmma_fence();
        multiply_scores(s, q, k + ring.stage() * (K_BYTES / 16));
        wgmma_commit();
        //$ if in_turns
        named_barrier_arrive(2 - consumer, 256);
        //$ end
        wgmma_wait<0>();
        wgmma_settle(s);
        release(&shared.k_empty[ring.stage()]);
        if (tiles - 1 >= whole)
            mask_tile(s, (tiles - 1) * BLOCK_N + lane % 4 * 2, end);
        softmax_tile(s, rows, c);
        pack_weights(s, weights);
    }
    auto round = [&](int tile_n, bool masked) {
        Ring next = {ring.count + 1};
        barrier_wait(&shared.k_full[next.stage()], next.parity());
        //$ if in_turns
        named_barrier_sync(1 + consumer, 256);
        //$ end
        wgmma_fence();
        multiply_scores(s, q, k + next.stage() * (K_BYTES / 16));
        wgmma_commit();
        barrier_wait(&shared.v_full[ring.stage()], ring.parity());
        wgmma_fence();
        multiply_output(o, weights, v + ring.stage() * (V_BYTES / 16));
        wgmma_commit();
        //$ if in_turns
        named_barrier_arrive(2 - consumer, 256);
        //$ end
        wgmma_wait<1>(); // S is there, O is not
        wgmma_settle(s);
        release(&shared.k_empty[next.stage()]);
        if (masked)
            mask_tile(s, tile_n * BLOCK_N + lane % 4 * 2, end);
        softmax_tile(s, rows, c);
        wgmma_wait<0>();
        wgmma_settle(o);
        release(&shared.v_empty[ring.stage()]);
        rescale(o, rows);
        pack_weights(s, weights);
        ring = next;
    };
    int tile_n = tiles - 2;
    //$ if mask == causal
#pragma unroll 1
    for (; tile_n >= max(whole, 0); tile_n--)
        round(tile_n, true);
    //$ end
#pragma unroll 1
    for (; tile_n >= 0; tile_n--)
        round(tile_n, false);
    if (tiles > 0) {
        barrier_wait(&shared.v_full[ring.stage()], ring.parity());
        wgmma_fence();
        multiply_output(o, weights, v + ring.stage() * (V_BYTES / 16));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(o);
    }
    //$ else
    // Rounds of: S, softmax, O += P V, one after the other.
#pragma unroll 1
    for (int tile_n = tiles - 1; tile_n >= 0; tile_n--, ring.count++) {
        barrier_wait(&shared.k_full[ring.stage()], ring.parity());
        //$ if in_turns
        named_barrier_sync(1 + consumer, 256);
        //$ end
        wgmma_fence();
        multiply_scores(s, q, k + ring.stage() * (K_BYTES / 16));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(s);
        release(&shared.k_empty[ring.stage()]);
        //$ if in_turns
        named_barrier_arrive(2 - consumer, 256);
        //$ end
        if (tile_n >= whole)
            mask_tile(s, tile_n * BLOCK_N + lane % 4 * 2, end);
        softmax_tile(s, rows, c);
        rescale(o, rows);
        pack_weights(s, weights);
        barrier_wait(&shared.v_full[ring.stage()], ring.parity());
        wgmma_fence();
        multiply_output(o, weights, v + ring.stage() * (V_BYTES / 16));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(o);
        release(&shared.v_empty[ring.stage()]);
    }
    //$ end
    //$ if in_turns
    if (consumer == 0)
        named_barrier_sync(1, 256); // the other's last turn is handed to nobody: take it
    //$ end

    //$ if mask == causal
    repeat_rows(a, tile, query, c, o, rows);
    //$ end
    // l over the four lanes of a row;  O = O / l;  LSE = m scale + ln l
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = rows.sum[r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        inverse[r] = sum == 0 ? 1 : 1 / sum; // a row that saw nothing stays 0
        if (a.lse && lane % 4 == 0 && query + 8 * r < a.len_q)
            a.lse[tile.batch * a.lse_batch_stride + tile.head * a.lse_head_stride + query + 8 * r] =
                sum == 0 ? -INFINITY : rows.max[r] * a.scale + logf(sum);
    }
    store_output(p, shared, tile, consumer, o, inverse);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_flash_async(const __grid_constant__ attention_tma_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    Tile tile = tile_at(p.attention, blockIdx.x);
    int tiles = (keys_end(p.attention, min(tile.query + BLOCK_M, p.attention.len_q)) + BLOCK_N - 1) / BLOCK_N;
    if (warp_index() == 0 && elect_one()) {
        tma_prefetch(&p.q_map);
        tma_prefetch(&p.k_map);
        tma_prefetch(&p.v_map);
        barrier_init(&shared.q_full, 1);
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(&shared.k_full[stage], 1);
            barrier_init(&shared.v_full[stage], 1);
            barrier_init(&shared.k_empty[stage], CONSUMERS);
            barrier_init(&shared.v_empty[stage], CONSUMERS);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0 && elect_one())
            produce(p, shared, tile, tiles);
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        consume(p, shared, tile, tiles, warpgroup_index() - 1);
    }
}
