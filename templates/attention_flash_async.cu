// Attention by tiles on Hopper, with every unit of the SM at work at once: FlashAttention-3 (arXiv 2407.08608, section 3).
//
//     consumers, warpgroups    64 queries each: S = Q K^T on the matrix unit, softmax in registers, O += P V on the matrix
//                              unit. S of the next tile is multiplied during the softmax of this one.
//     producers, three threads one hands out tiles of queries and copies them in; one copies tiles of K, one of V, STAGES
//                              ahead of their use
//
// Barriers hand tiles over: `full` when the bytes are there, `empty` when all consumers are done with them. A block works
// on one tile of queries after the other, and the matrix unit does not stop at the border: the first S of the next one is
// multiplied together with the last P V of this one.
//$ require target == sm_90a
//$ require dtype != fp32
//$ require head_dim % 8 == 0
//$ require head_dim_v % 8 == 0
//$ let plain_scores = mask != custom_mask and score == scaled
//$ if head_dim <= 64 and head_dim_v <= 64 and plain_scores
//$ default block_m = 192
//$ default block_n = 128
//$ default stages = 3
//$ elif head_dim <= 96 and head_dim_v <= 96 and plain_scores
//$ default block_m = 192
//$ default block_n = 96
//$ default stages = 2
//$ elif head_dim <= 128 and head_dim_v <= 128
//$ default block_m = 128
//$ default block_n = 128
//$ default stages = 2
//$ elif head_dim <= 192 and head_dim_v <= 128
//$ default block_m = 128
//$ default block_n = 96
//$ default stages = 2
//$ elif head_dim <= 192 and head_dim_v <= 192
//$ default block_m = 128
//$ default block_n = 80
//$ default stages = 2
//$ else
//$ default block_m = 128
//$ default block_n = 64
//$ default stages = 2
//$ end
//$ if block_m == 128 and head_dim <= 128 and head_dim_v <= 128 and plain_scores
//$ default overlap = both
//$ else
//$ default overlap = within
//$ end
//$ if dtype == bf16 and plain_scores
//$ default rescale = from_sum
//$ else
//$ default rescale = lazy
//$ end
//$ default tile_order = sections
//$ default blocks = resident
//$ if dtype_out == fp32
//$ default store = direct
//$ else
//$ default store = tma
//$ end
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128, 192, 256]
//$ tune block_n in [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
//$ tune stages in [1, 2, 3, 4]
//$ tune query_heads in [apart]
//$ tune weights_in in [p_registers]
//$ tune queries_in in [q_shared]
//$ require block_m in [64, 128, 192, 256]
//$ require block_n % 16 == 0
//$ require store == direct or dtype_out != fp32
//$ require rescale != from_sum or dtype == bf16
//$ require query_heads == apart or blocks == resident
//$ require cluster in [1, 2]
//$ require rescale != from_sum or plain_scores
//$ require query_heads == apart or (plain_scores and sinks == 0)
//$ let consumers = block_m / 64
//$ let scores_ahead = overlap == within or overlap == both
//$ let in_turns = overlap == ping_pong or overlap == both
//$ require not in_turns or consumers == 2
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ let k_bytes = panels * block_n * 128
//$ let v_bytes = panels_v * block_n * 128
//$ if store == tma and panels_v > panels
//$ let q_panels = panels_v
//$ else
//$ let q_panels = panels
//$ end
//$ let q_bytes = q_panels * block_m * 128
//$ let p_panels = (block_n + 63) / 64
//$ if weights_in == p_shared
//$ let p_bytes = p_panels * block_m * 128
//$ else
//$ let p_bytes = 0
//$ end
// Where O leaves through the place of Q, a second place lets the next tile begin before this one ends.
//$ if store == tma and blocks == resident and 2 * q_bytes + p_bytes + stages * (k_bytes + v_bytes + 32) + 32 * consumers + 64 <= 227 * 1024
//$ let q_stages = 2
//$ else
//$ let q_stages = 1
//$ end
//$ let q_all_bytes = q_stages * (q_bytes + 16 * consumers)
// K is read a round before V: one more stage, if there is room, and both are loaded equally long before their use.
//$ if scores_ahead and q_all_bytes + p_bytes + (stages + 1) * (k_bytes + 16) + stages * (v_bytes + 16) + 64 <= 227 * 1024
//$ let k_stages = stages + 1
//$ else
//$ let k_stages = stages
//$ end
// Across the border, S of the next queries is in registers while O of these is written; straight from there, wide rows of
// O would not fit too.
//$ let across = blocks == resident and scores_ahead and (store == direct or q_stages == 2) and (store == tma or head_dim_v <= 128)
//$ let shared_bytes = (q_all_bytes + p_bytes + k_stages * (k_bytes + 16) + stages * (v_bytes + 16) + 64 + 1023) / 1024 * 1024
//$ let block_threads = 128 * (consumers + 1)
//$ if cluster > 1
// A tile of queries is worked on by the blocks of a cluster, and of each tile of keys every one loads its share for all.
//$ end
//$ let tile_rows = cluster * block_m
//$ let share = block_n / cluster
//$ if mask == custom_mask
//$ include "params/attention_tma.h"
//$ tables tables
//$ if tables > 0
//$ include "part/tables.cuh"
//$ end
//$ exact exact
//$ let tile_map = exact == 0
//$ if tile_map
//$ include "part/tile_map.cuh"
//$ end
//$ end
//$ if query_heads == packed
//$ launch attention_flash_async grid min(len_q * kv_heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster
//$ elif blocks == per_tile
//$ launch attention_flash_async grid (len_q + tile_rows - 1) / tile_rows * heads * batch * cluster block block_threads shared shared_bytes cluster cluster
//$ elif mask == causal
//$ launch attention_flash_async grid min(((len_q + tile_rows - 1) / tile_rows + 1) / 2 * heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster
//$ else
//$ launch attention_flash_async grid min((len_q + tile_rows - 1) / tile_rows * heads * batch, sm_count / cluster) * cluster block block_threads shared shared_bytes cluster cluster
//$ end
//$ if query_heads == packed
//$ tensor_map q rows 64 cols 64 packed
//$ else
//$ tensor_map q rows 64 cols 64
//$ end
//$ tensor_map k rows share cols 64
//$ tensor_map v rows share cols 64
//$ if dtype_out != fp32 and query_heads == packed
//$ tensor_map o rows 64 cols 64 packed
//$ elif dtype_out != fp32
//$ tensor_map o rows 64 cols 64
//$ end
//$ if consumers == 1
//$ let producer_registers = 56
//$ let consumer_registers = 256
//$ elif consumers == 2
//$ let producer_registers = 40
//$ let consumer_registers = 232
//$ elif consumers == 3
//$ let producer_registers = 32
//$ let consumer_registers = 160
//$ else
//$ let producer_registers = 32
//$ let consumer_registers = 112
//$ end
// What a consumer thread holds: O, S, P and Q as 16-bit pairs, and about 32 more.
//$ if weights_in == p_registers
//$ let p_registers_held = block_n / 4
//$ else
//$ let p_registers_held = 0
//$ end
//$ if queries_in == q_registers
//$ let q_registers_held = (head_dim + 15) / 16 * 4
//$ else
//$ let q_registers_held = 0
//$ end
//$ require block_n / 2 + p_registers_held + q_registers_held + head_dim_v / 2 + 32 <= consumer_registers
// Rows with numbers that are not finite are done over where a weight of 0 or a missing maximum may have made them.
//$ let repeats = mask != none or rescale == from_sum
//$ include "params/attention_tma.h"
//$ include "part/element.cuh"
//$ include "part/mask.cuh"
//$ include "target/sm_90a.cuh"
//$ if cluster > 1
//$ include "target/sm_90a_cluster.cuh"
//$ end
//$ include "part/tile_order.cuh"

// A tile of 16-bit elements lies in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by the copy unit.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];
//$ include "part/softmax_rows.cuh"

struct alignas(1024) Shared {
    Panels<Q_PANELS, 64> q[Q_STAGES][CONSUMERS];
    Panels<PANELS, BLOCK_N> k[K_STAGES];
    Panels<PANELS_V, BLOCK_N> v[STAGES];
    //$ if weights_in == p_shared
    Panels<P_PANELS, 64> p[CONSUMERS];
    //$ end
    Barrier q_full[Q_STAGES][CONSUMERS], q_empty[Q_STAGES][CONSUMERS];
    Barrier k_full[K_STAGES], k_empty[K_STAGES], v_full[STAGES], v_empty[STAGES];
    Barrier tile_full[2], tile_empty[2];
    Tile tile[2];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

//$ if sinks > 0
// In units of what m is taken of: scores before scaling, unless an expression has scaled them.
__device__ __forceinline__ float sink_of(const attention_params &p, const Tile &tile) {
    //$ if score == custom_score
    return tensor_sinks(p, tile.head);
    //$ else
    return tensor_sinks(p, tile.head) / p.scale;
    //$ end
}

//$ end
// The position in a ring of so many stages after `count` steps.
template <int SIZE> struct Ring {
    int count;
    __device__ __forceinline__ int stage() const { return count % SIZE; }
    __device__ __forceinline__ int parity() const { return count / SIZE & 1; }
    __device__ __forceinline__ Ring operator+(int steps) const { return {count + steps}; }
};

//$ if mask == custom_mask
//$ include "part/key_walk.cuh"
//$ else
// One past the last key that any query below `query_end` sees, which may be past the end of Q.
__device__ __forceinline__ int keys_end(const attention_params &p, int query_end) {
    return min(p.len_kv, keys_seen(p, query_end - 1));
}

// Tiles of keys that queries [query, query + count) go over, the last one first: it is the one with a mask. At least one, so
// that all take the same way.
__device__ __forceinline__ int key_tiles(const attention_params &p, int query, int count) {
    return max(1, (keys_end(p, min(query + count, p.len_q)) + BLOCK_N - 1) / BLOCK_N);
}
//$ end

// The next tile of queries, as the thread that hands them out has put it there.
__device__ __forceinline__ Tile take_tile(Shared &shared, Ring<2> &ring) {
    int stage = ring.stage();
    barrier_wait(&shared.tile_full[stage], ring.parity());
    Tile tile = shared.tile[stage];
    ring.count++;
    return tile;
}

// --- the producers

//$ if store == tma
__device__ __forceinline__ void store_output(const attention_tma_params &p, Shared &shared, Tile tile, int stage, int consumer) {
    for (int panel = 0; panel < PANELS_V; panel++)
        tma_store(&p.o_map, shared.q[stage][consumer][panel], panel * 64,
                  tile.query + unit_of(consumer) * queries_of_unit(p.attention), tile.head, tile.batch);
    tma_store_commit();
    tma_store_wait_read();
}

//$ end
__device__ __forceinline__ void produce_tiles(const attention_tma_params &p, Shared &shared) {
    TileQueue queue = tile_queue(p.attention);
    Ring<2> ring = {0};
    Ring<Q_STAGES> queries = {0};
    //$ if store == tma
    Tile leaving[Q_STAGES]; // whose O leaves next
    //$ end
    for (;; ring.count++, queries.count++) {
        int stage = queries.stage();
        Tile tile = next_tile(p.attention, queue);
        barrier_wait(&shared.tile_empty[ring.stage()], ring.parity() ^ 1);
        shared.tile[ring.stage()] = tile;
        barrier_arrive(&shared.tile_full[ring.stage()]);
        if (tile.query < 0)
            break;
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            Barrier *full = &shared.q_full[stage][consumer];
            barrier_wait(&shared.q_empty[stage][consumer], queries.parity() ^ 1);
            //$ if store == tma
            if (queries.count >= Q_STAGES)
                store_output(p, shared, leaving[0], stage, consumer);
            //$ end
            int queries = queries_of_unit(p.attention);
            barrier_expect(full, PANELS * queries * heads_of_tile(p.attention) * 128);
            for (int panel = 0; panel < PANELS; panel++)
                tma_load(shared.q[stage][consumer][panel], &p.q_map, full, panel * 64, tile.query + unit_of(consumer) * queries,
                         tile.head, tile.batch);
        }
        //$ if store == tma
        //$ if q_stages == 2
        leaving[0] = queries.count == 0 ? tile : leaving[1];
        //$ end
        leaving[Q_STAGES - 1] = tile;
        //$ end
    }
    //$ if store == tma
#pragma unroll
    for (int i = 0; i < Q_STAGES; i++) {
        Ring<Q_STAGES> last = {queries.count - min(queries.count, Q_STAGES) + i};
        if (last.count < queries.count)
            for (int consumer = 0; consumer < CONSUMERS; consumer++) {
                barrier_wait(&shared.q_empty[last.stage()][consumer], last.parity());
                store_output(p, shared, leaving[i], last.stage(), consumer);
            }
    }
    //$ end
}

// Tiles of K, or of V: one tensor, one ring of stages.
template <int PANELS_OF, int STAGES_OF>
__device__ __forceinline__ void produce_keys(const attention_params &p, Shared &shared, const tensor_map &map,
                                             Panels<PANELS_OF, BLOCK_N> *to, Barrier *full, Barrier *empty) {
    Ring<2> tiles = {0};
    Ring<STAGES_OF> ring = {0};
    //$ if cluster > 1
    int first = cluster_rank() * SHARE; // of the rows that this block loads for all
    //$ end
    for (;;) {
        Tile tile = take_tile(shared, tiles);
        barrier_arrive(&shared.tile_empty[(tiles + 1).stage()]);
        if (tile.query < 0)
            break;
        //$ if mask == custom_mask
        KeyWalk walk = key_walk(p, tile);
        for (bool whole; walk.left > 0; ring.count++) {
            int i = walk.next(whole), stage = ring.stage();
            //$ else
        for (int i = key_tiles(p, tile.query, queries_of_tile(p)) - 1; i >= 0; i--, ring.count++) {
            int stage = ring.stage();
            //$ end
            barrier_wait(&empty[stage], ring.parity() ^ 1);
            barrier_expect(&full[stage], PANELS_OF * BLOCK_N * 128);
            for (int panel = 0; panel < PANELS_OF; panel++)
                //$ if cluster > 1
                tma_load_multicast(to[stage][panel][first], &map, &full[stage], (1 << CLUSTER) - 1, panel * 64,
                                   i * BLOCK_N + first, tile.kv_head, tile.batch);
                //$ else
                tma_load(to[stage][panel], &map, &full[stage], panel * 64, i * BLOCK_N, tile.kv_head, tile.batch);
                //$ end
        }
    }
}

// --- the consumers

//$ if repeats
//$ include "part/repeat_rows.cuh"
//$ end

//$ let q_steps = (head_dim + 15) / 16
//$ if queries_in == q_registers
using Queries = unsigned[Q_STEPS][4];

// Q (64, HEAD_DIM), from shared memory: the operand of 16 columns a step.
__device__ __forceinline__ void load_queries(Queries &q, const Panels<Q_PANELS, 64> &from) {
    int row = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        load_matrices(q[step], &from[step / 4][row][(step % 4 * 2 + threadIdx.x % 32 / 16 ^ row % 8) * 8]);
}

//$ end
// S (64, BLOCK_N) = Q K^T, 16 columns of Q and K a step; issued, not finished.
//$ if queries_in == q_registers
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], const Queries &q, unsigned long long k) {
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        wgmma_rs_nt<BLOCK_N, BFLOAT16>(s, q[step], k + step / 4 * (BLOCK_N * 128 / 16) + step % 4 * 2, step != 0);
}
//$ else
__device__ __forceinline__ void multiply_scores(float (&s)[BLOCK_N / 2], unsigned long long q, unsigned long long k) {
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        wgmma_ss_nt<BLOCK_N, BFLOAT16>(s, q + step / 4 * (64 * 128 / 16) + step % 4 * 2,
                                       k + step / 4 * (BLOCK_N * 128 / 16) + step % 4 * 2, step != 0);
}
//$ end

// O (64, HEAD_DIM_V) += P V, 16 keys a step; issued, not finished.
//$ if weights_in == p_shared
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], unsigned long long p, unsigned long long v) {
#pragma unroll
    for (int step = 0; step < BLOCK_N / 16; step++)
        wgmma_ss_nn<HEAD_DIM_V, BFLOAT16>(o, p + step / 4 * (64 * 128 / 16) + step % 4 * 2, v + step * (16 * 128 / 16));
}
//$ else
__device__ __forceinline__ void multiply_output(float (&o)[HEAD_DIM_V / 2], const Weights &p, unsigned long long v) {
#pragma unroll
    for (int step = 0; step < BLOCK_N / 16; step++)
        wgmma_rs_nn<HEAD_DIM_V, BFLOAT16>(o, p[step], v + step * (16 * 128 / 16));
}
//$ end

// All threads of the warpgroup are done with a stage.
__device__ __forceinline__ void release(Barrier *empty) {
    if (warp_index() % 4 == 0 && elect_one())
        barrier_arrive(empty);
}
//$ if cluster > 1
// ... which all blocks of the cluster fill.
__device__ __forceinline__ void release_share(Barrier *empty) {
    if (warp_index() % 4 == 0 && threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
//$ else
__device__ __forceinline__ void release_share(Barrier *empty) { release(empty); }
//$ end

// Which keys the rows of one warpgroup see.
struct Span {
    Tile tile;
    int tiles;  // of keys
    int unseen; // tiles that only other warpgroups see, before those
    //$ if mask == custom_mask
    KeyWalk walk;
    //$ else
    int whole;  // tiles below need no mask
    int end[2]; // one past the last key that each of this thread's rows sees
    //$ end
    //$ if mask == custom_mask or score == custom_score
    Where where;
    int position[2]; // of this thread's rows
    //$ end
};

// What one warpgroup does, with everything that it holds in registers.
struct Consumer {
    const attention_tma_params &p;
    const attention_params &a;
    Shared &shared;
    int index, unit; // of the consumers of this block; of the tile's units of 64 rows
    int lane, row;   // of this thread; its first row of the unit
    float c;         // log2(e) times scale, unless the score has that in it
    unsigned long long q, k, v;

    Ring<2> taken;
    Ring<Q_STAGES> queries;
    int step; // tiles of keys that went through this warpgroup
    Span span;
    Rows rows;
    float s[BLOCK_N / 2], o[HEAD_DIM_V / 2];
    //$ if weights_in == p_registers
    Weights weights;
    //$ end
    //$ if queries_in == q_registers
    Queries fragments;
    //$ end

    __device__ __forceinline__ Consumer(const attention_tma_params &p, Shared &shared, int index)
        : p(p), a(p.attention), shared(shared), index(index), unit(unit_of(index)), lane(threadIdx.x % 32),
          row(warp_index() % 4 * 16 + lane / 4),
          //$ if score == custom_score
          c(1.44269504f),
          //$ else
          c(a.scale * 1.44269504f),
          //$ end
          q(matrix_descriptor(shared.q[0][index], 0)), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), taken{0}, queries{0}, step(0) {}

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values() const { return {step}; }

    // False when there is no further tile.
    __device__ __forceinline__ bool take() {
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        int first = tile.query + unit * queries_of_unit(a);
        span.tile = tile;
        //$ if mask == custom_mask or score == custom_score
        span.where = {tile.batch, tile.head, tile.kv_head};
        for (int r = 0; r < 2; r++)
            span.position[r] = position_of(a, min(row_of(a, tile, unit, row + 8 * r).query, a.len_q - 1));
        //$ end
        //$ if mask == custom_mask
        if (tile.query >= 0)
            span.walk = key_walk(a, tile);
        span.tiles = span.walk.left;
        span.unseen = 0;
        //$ else
        span.tiles = key_tiles(a, tile.query, queries_of_tile(a));
        //$ if in_turns
        span.unseen = 0; // turns are taken alike
        //$ else
        span.unseen = span.tiles - (first < a.len_q ? key_tiles(a, first, queries_of_unit(a)) : 1);
        span.tiles -= span.unseen;
        //$ end
        //$ if mask == causal
        span.whole = max(0, keys_end(a, first + 1) - 1) / BLOCK_N; // one more than need be, so that m is known after it
        //$ else
        span.whole = keys_end(a, first + 1) / BLOCK_N;
        //$ end
        span.end[0] = keys_end(a, row_of(a, tile, unit, row).query + 1);
        span.end[1] = keys_end(a, row_of(a, tile, unit, row + 8).query + 1);
        //$ end
        return tile.query >= 0;
    }

    // Bytes of unseen tiles are waited for, or a stage could be given back a round early.
    __device__ __forceinline__ void skip_unseen() {
        for (; span.unseen > 0; span.unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            named_barrier_sync(4 + index, 128); // or a warp that is late would not see the phase it waits for
            release_share(&shared.k_empty[keys(0).stage()]);
            release_share(&shared.v_empty[values().stage()]);
        }
    }

    __device__ __forceinline__ void begin_turn() {
        //$ if in_turns
        named_barrier_sync(1 + index, 256);
        //$ end
    }
    __device__ __forceinline__ void end_turn() {
        //$ if in_turns
        named_barrier_arrive(2 - index, 256);
        //$ end
    }

    __device__ __forceinline__ void issue_scores(Ring<K_STAGES> at) {
        barrier_wait(&shared.k_full[at.stage()], at.parity());
        begin_turn();
        wgmma_fence();
        //$ if queries_in == q_registers
        multiply_scores(s, fragments, k + at.stage() * (K_BYTES / 16));
        //$ else
        multiply_scores(s, q + queries.stage() * (Q_BYTES / 16), k + at.stage() * (K_BYTES / 16));
        //$ end
        wgmma_commit();
    }
    __device__ __forceinline__ void issue_output() {
        barrier_wait(&shared.v_full[values().stage()], values().parity());
        wgmma_fence();
        //$ if weights_in == p_shared
        multiply_output(o, matrix_descriptor(shared.p[index], 0), v + values().stage() * (V_BYTES / 16));
        //$ else
        multiply_output(o, weights, v + values().stage() * (V_BYTES / 16));
        //$ end
        wgmma_commit();
    }

    // Weights, as the next product wants them.
    __device__ __forceinline__ void keep_weights() {
        //$ if weights_in == p_shared
        store_weights(s, shared.p[index]);
        fence_async();
        named_barrier_sync(4 + index, 128);
        //$ else
        pack_weights(s, weights);
        //$ end
    }

    __device__ __forceinline__ void await_queries() {
        barrier_wait(&shared.q_full[queries.stage()][index], queries.parity());
        //$ if queries_in == q_registers
        load_queries(fragments, shared.q[queries.stage()][index]);
        //$ if store == direct
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.q_empty[queries.stage()][index]);
        //$ end
        //$ end
    }

    // The scores of tile i are there. `last`: no further S of these queries comes.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at, bool last) {
        wgmma_settle(s);
        release_share(&shared.k_empty[at.stage()]);
        //$ if store == direct and queries_in == q_shared
        if (last)
            release(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done() {
        wgmma_settle(o);
        release_share(&shared.v_empty[values().stage()]);
    }

    //$ if score == custom_score
    // S of tile `tile_n` as the problem has it.
    template <bool INSIDE> __device__ __forceinline__ void score_tile(int tile_n) {
        int key = tile_n * BLOCK_N + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++) {
            int place = 8 * (i / 4) + i % 2;
            ScoreKey k;
            if constexpr (INSIDE)
                set_key(k, key, place);
            else
                set_key(k, min(key + place, a.len_kv - 1), 0);
            s[i] = score_of(a, span.where, span.position[i / 2 % 2], k, a.scale * s[i]);
        }
    }
    //$ end
    //$ if mask == custom_mask
    // The next tile of keys, from S to weights.
    __device__ __forceinline__ void weigh_next() {
        bool whole;
        int tile_n = span.walk.next(whole);
        if (whole) {
            //$ if score == custom_score
            score_tile<true>(tile_n);
            //$ end
        } else {
            //$ if score == custom_score
            score_tile<false>(tile_n);
            //$ end
            int key = tile_n * BLOCK_N + lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; i++) {
                int k = key + 8 * (i / 4) + i % 2;
                if (k >= a.len_kv || !sees(a, span.where, span.position[i / 2 % 2], k))
                    s[i] = -INFINITY;
            }
        }
        softmax_tile<1>(s, rows, c);
    }
    __device__ __forceinline__ void weigh_first() { weigh_next(); }
    //$ else
    // S -> weights, for the first tile of keys and others with a mask.
    __device__ __forceinline__ void weigh_first() {
        if (span.tiles > span.whole) {
            //$ if score == custom_score
            score_tile<false>(span.tiles - 1);
            //$ end
            mask_tile(s, (span.tiles - 1) * BLOCK_N + lane % 4 * 2, span.end);
            softmax_tile<1>(s, rows, c);
        } else {
            //$ if score == custom_score
            score_tile<true>(span.tiles - 1);
            //$ end
            //$ if rescale == from_sum and block_n % 32 == 0
            softmax_tile<4>(s, rows, c); // a first guess at m is enough
            //$ else
            softmax_tile<1>(s, rows, c);
            //$ end
        }
    }
    __device__ __forceinline__ void weigh_masked(int tile_n) {
        //$ if score == custom_score
        score_tile<false>(tile_n);
        //$ end
        mask_tile(s, tile_n * BLOCK_N + lane % 4 * 2, span.end);
        softmax_tile<1>(s, rows, c);
    }
    __device__ __forceinline__ void weigh_whole(int tile_n) {
        //$ if score == custom_score
        score_tile<true>(tile_n);
        //$ end
        //$ if rescale == from_sum
        softmax_onward(s, rows, c);
        //$ else
        softmax_tile<1>(s, rows, c);
        //$ end
    }
    //$ end

    __device__ __forceinline__ void begin_rows() {
        rows = no_rows();
        //$ if sinks > 0
        begin_with_sink(rows, sink_of(a, span.tile), lane % 4 == 0);
        //$ end
    }
    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &value : o)
            value = 0;
    }

    // O = O / l;  LSE = m scale + ln l.
    __device__ __forceinline__ void finish(Tile tile, int stage, Rows &rows) {
        //$ if repeats
        repeat_rows(a, tile, unit, c, o, rows);
        //$ end
        float inverse[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = rows.sum[r]; // l over the four lanes of the row
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            inverse[r] = sum == 0 ? 1 : 1 / sum; // a row that saw nothing stays 0
            Row to = row_of(a, tile, unit, row + 8 * r);
            if (a.lse && lane % 4 == 0 && to.query < a.len_q)
                a.lse[tile.batch * a.lse_batch_stride + to.head * a.lse_head_stride + to.query] =
                    //$ if score == custom_score
                    sum == 0 ? -INFINITY : rows.max[r] + logf(sum);
            //$ else
                    sum == 0 ? -INFINITY : rows.max[r] * a.scale + logf(sum);
            //$ end
        }
        store_rows(tile, stage, inverse);
    }

    //$ if store == tma
    // To where Q was, from where the copy unit takes it: rows of 16 bytes, in its swizzle.
    __device__ __forceinline__ void store_rows(Tile, int stage, const float (&scale)[2]) {
        named_barrier_sync(4 + index, 128); // all of the warpgroup's products have read Q
        int line = warp_index() % 4 * 16 + lane % 16;
#pragma unroll
        for (int i = 0; i < HEAD_DIM_V / 2; i += 8) { // 16 columns: two chunks of 16 bytes
            int chunk = i / 4 % 8 + lane / 16, j = i + 4 < HEAD_DIM_V / 2 ? i + 4 : i;
            store_matrices(&shared.q[stage][index][i / 32][line][(chunk ^ line % 8) * 8],
                           pack<BFLOAT16_OUT>(o[i] * scale[0], o[i + 1] * scale[0]),
                           pack<BFLOAT16_OUT>(o[i + 2] * scale[1], o[i + 3] * scale[1]),
                           j > i ? pack<BFLOAT16_OUT>(o[j] * scale[0], o[j + 1] * scale[0]) : 0,
                           j > i ? pack<BFLOAT16_OUT>(o[j + 2] * scale[1], o[j + 3] * scale[1]) : 0);
        }
        fence_async();
        barrier_arrive(&shared.q_empty[stage][index]);
    }
    //$ elif dtype_out == fp32
    __device__ __forceinline__ void store_rows(Tile tile, int, const float (&scale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            Row at = row_of(a, tile, unit, row + 8 * r);
            float *to = static_cast<float *>(a.o) + tile.batch * a.o_batch_stride + at.head * a.o_head_stride +
                        at.query * a.o_row_stride + lane % 4 * 2;
            if (at.query < a.len_q)
#pragma unroll
                for (int i = 0; i < HEAD_DIM_V / 8; i++) {
                    to[8 * i] = o[4 * i + 2 * r] * scale[r];
                    to[8 * i + 1] = o[4 * i + 2 * r + 1] * scale[r];
                }
        }
    }
    //$ else
    // Two neighbours exchange a pair of columns, so that the four lanes of a row write 32 bytes of it together.
    __device__ __forceinline__ void store_rows(Tile tile, int, const float (&scale)[2]) {
        bool odd = lane % 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            Row at = row_of(a, tile, unit, row + 8 * r);
            unsigned short *to = static_cast<unsigned short *>(a.o) + tile.batch * a.o_batch_stride +
                                 at.head * a.o_head_stride + at.query * a.o_row_stride;
#pragma unroll
            for (int i = 0; i < HEAD_DIM_V / 8; i += 2) {
                int j = i + 1 < HEAD_DIM_V / 8 ? i + 1 : i;
                unsigned low = pack<BFLOAT16_OUT>(o[4 * i + 2 * r] * scale[r], o[4 * i + 2 * r + 1] * scale[r]);
                unsigned high = pack<BFLOAT16_OUT>(o[4 * j + 2 * r] * scale[r], o[4 * j + 2 * r + 1] * scale[r]);
                unsigned other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
                if (at.query < a.len_q && (j > i || !odd))
                    *reinterpret_cast<uint2 *>(to + 8 * (i + odd) + lane % 4 / 2 * 4) =
                        odd ? make_uint2(other, high) : make_uint2(low, other);
            }
        }
    }
    //$ end

    //$ if scores_ahead
    // S of the tile ahead and O += P V of this one, both at once; S is waited for.
    __device__ __forceinline__ void issue_round(bool last) {
        issue_scores(keys(1));
        issue_output();
        end_turn();
        wgmma_wait<1>(); // S is there, O is not
        scores_done(keys(1), last);
    }
    __device__ __forceinline__ void end_round() {
        keep_weights();
        step++;
    }

    // All keys of a tile of queries but the first tile of them, whose weights are there, and without the last P V.
    __device__ __forceinline__ void go_over_keys() {
        //$ if mask == custom_mask
#pragma unroll 1
        while (span.walk.left > 0) {
            issue_round(span.walk.left == 1);
            weigh_next();
            //$ else
#pragma unroll 1
        for (int tile_n = span.tiles - 2; tile_n >= 0; tile_n--) {
            issue_round(tile_n == 0);
            //$ if mask == causal
            if (tile_n >= span.whole)
                weigh_masked(tile_n);
            else
                //$ end
                weigh_whole(tile_n);
            //$ end
            wgmma_wait<0>();
            output_done();
            rescale(o, rows);
            end_round();
        }
    }

    __device__ __forceinline__ void run() {
        for (bool more = take(); more;) {
            skip_unseen();
            await_queries();
            issue_scores(keys(0));
            end_turn();
            wgmma_wait<0>();
            scores_done(keys(0), span.tiles == 1);
            begin_rows();
            weigh_first();
            keep_weights();
            begin_output();
            //$ if across
            for (;;) {
                go_over_keys();
                Tile tile = span.tile;
                more = take();
                if (!more || span.unseen > 0) {
                    finish_last(tile);
                    break;
                }
                // Across the border: the tile ahead belongs to the next queries.
                Rows done = rows;
                int stage = queries.stage();
                queries.count++;
                await_queries();
                issue_output();
                issue_scores(keys(1));
                end_turn();
                wgmma_wait<1>(); // O is there, S is not
                output_done();
                finish(tile, stage, done);
                wgmma_wait<0>();
                scores_done(keys(1), span.tiles == 1);
                begin_rows();
                weigh_first();
                begin_output();
                end_round();
            }
            //$ else
            go_over_keys();
            finish_last(span.tile);
            more = take();
            //$ end
        }
    }

    __device__ __forceinline__ void finish_last(Tile tile) {
        issue_output();
        wgmma_wait<0>();
        output_done();
        finish(tile, queries.stage(), rows);
        step++, queries.count++;
    }
    //$ else
    // Rounds of: S, softmax, O += P V, one after the other.
    __device__ __forceinline__ void run() {
        while (take()) {
            skip_unseen();
            await_queries();
            begin_rows();
            begin_output();
#pragma unroll 1
            for (int tile_n = span.tiles - 1; tile_n >= 0; tile_n--, step++) {
                issue_scores(keys(0));
                wgmma_wait<0>();
                scores_done(keys(0), tile_n == 0);
                end_turn();
                //$ if mask == custom_mask
                weigh_next();
                //$ else
                if (tile_n == span.tiles - 1)
                    weigh_first();
                else if (tile_n >= span.whole)
                    weigh_masked(tile_n);
                else
                    weigh_whole(tile_n);
                //$ end
                rescale(o, rows);
                keep_weights();
                issue_output();
                wgmma_wait<0>();
                output_done();
            }
            finish(span.tile, queries.stage(), rows);
            queries.count++;
        }
    }
    //$ end
};

// No keys at all: O = 0, LSE = -infinity.
__device__ __forceinline__ void write_nothing(const attention_params &p) {
    for (long long row = blockIdx.x; row < 1ll * p.len_q * p.heads * p.batch; row += gridDim.x) {
        long long query = row % p.len_q, head = row / p.len_q % p.heads, batch = row / p.len_q / p.heads;
        for (int i = threadIdx.x; i < HEAD_DIM_V; i += BLOCK_THREADS)
            static_cast<Output *>(p.o)[batch * p.o_batch_stride + head * p.o_head_stride + query * p.o_row_stride + i] =
                to_output(0);
        if (p.lse && threadIdx.x == 0)
            //$ if sinks > 0
            p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = tensor_sinks(p, head);
        //$ else
            p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = -INFINITY;
        //$ end
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_flash_async(const __grid_constant__ attention_tma_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    if (p.attention.len_kv == 0)
        return write_nothing(p.attention);
    if (warp_index() == 0 && elect_one()) {
        tma_prefetch(&p.q_map);
        tma_prefetch(&p.k_map);
        tma_prefetch(&p.v_map);
        for (int stage = 0; stage < Q_STAGES; stage++)
            for (int consumer = 0; consumer < CONSUMERS; consumer++) {
                barrier_init(&shared.q_full[stage][consumer], 1);
                //$ if store == tma
                barrier_init(&shared.q_empty[stage][consumer], 128); // every thread has put its part of O there
                //$ elif queries_in == q_registers
                barrier_init(&shared.q_empty[stage][consumer], 4); // every warp has loaded it
                //$ else
                barrier_init(&shared.q_empty[stage][consumer], 1);
                //$ end
            }
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(&shared.v_full[stage], 1);
            barrier_init(&shared.v_empty[stage], CONSUMERS * CLUSTER);
        }
        for (int stage = 0; stage < K_STAGES; stage++) {
            barrier_init(&shared.k_full[stage], 1);
            barrier_init(&shared.k_empty[stage], CONSUMERS * CLUSTER);
        }
        for (int stage = 0; stage < 2; stage++) {
            barrier_init(&shared.tile_full[stage], 1);
            barrier_init(&shared.tile_empty[stage], 2 + 4 * CONSUMERS); // producers of K and V, warps of consumers
        }
        barrier_init_fence();
    }
    //$ if cluster > 1
    __syncwarp();
    cluster_arrive(); // every block's barriers are made
    cluster_wait();
    //$ else
    __syncthreads();
    //$ end
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0 && elect_one())
            produce_tiles(p, shared);
        else if (warp_index() == 1 && elect_one())
            produce_keys<PANELS, K_STAGES>(p.attention, shared, p.k_map, shared.k, shared.k_full, shared.k_empty);
        else if (warp_index() == 2 && elect_one())
            produce_keys<PANELS_V, STAGES>(p.attention, shared, p.v_map, shared.v, shared.v_full, shared.v_empty);
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        Consumer consumer(p, shared, warpgroup_index() - 1);
        //$ if in_turns
        if (consumer.index == 1)
            named_barrier_arrive(1, 256); // warpgroup 0 goes first
        //$ end
        consumer.run();
        //$ if in_turns
        if (consumer.index == 0)
            named_barrier_sync(1, 256); // the other's last turn is handed to nobody: take it
        //$ end
    }
    //$ if cluster > 1
    __syncwarp();
    cluster_arrive(); // nobody reaches into this block any more
    cluster_wait();
    //$ end
}
