// Tiled attention on Hopper, warp-specialised: FlashAttention-3 (arXiv 2407.08608, section 3).
//
//     consumers, warpgroups    64 queries each: S = Q K^T on the tensor cores, softmax in registers, O += P V on the tensor
//                              cores. S of the next K/V tile is computed during the softmax of this one.
//     producers, three threads one assigns Q tiles and loads Q; one loads K and one V, STAGES tiles ahead of their use
//     bias producer, a warp    copies the rows of the bias that the score adds to S //$ if score_bias == bias_rows
//
// Each stage has two barriers: `full` completes when its bytes have arrived, `empty` when all consumers have released it. A
// persistent block computes several Q tiles, and the tensor cores stay busy between two of them: the first S of the next
// tile is issued together with the last P V of this one.
//$ require max(head_dim, head_dim_v) <= 256
//$ require target == sm_90a
//$ require dtype != fp32
//$ require head_dim % 8 == 0
//$ require head_dim_v % 8 == 0
//$ let columns_v = head_dim_v
//$ let output_columns = head_dim_v
//$ let rows_aligned = true
//$ let plain_scores = mask != custom_mask and score == scaled
//$ let folded = score_form in [linear, tanh]
//$ defaults "attention_flash_async.yaml"
//$ default overlap = both if block_m == 128 and head_dim <= 128 and head_dim_v <= 128 and mask != custom_mask else intra_warpgroup
//$ default rescale = from_sum
//$ default tile_order = sections
//$ default scheduler = persistent if layout == dense else per_tile
//$ default store = direct if dtype_out == fp32 or layout != dense else tma
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128, 192, 256]
//$ tune block_n in [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
//$ tune stages in [1, 2, 3, 4]
//$ tune pack_gqa in [0]
//$ tune p_in in [p_registers]
//$ tune q_in in [q_shared, q_registers]
//$ tune cluster in [1, 2]
//$ tune splits in [1]
//$ require block_m in [64, 128, 192, 256]
//$ require block_n % 16 == 0
//$ require store == direct or dtype_out != fp32
//$ require layout == dense or (store == direct and scheduler == per_tile)
//$ require page_size == 0 or page_size >= 16
//$ require page_size == 0 or cluster == 1
//$ require pack_gqa == 0 or scheduler == persistent
//$ require cluster in [1, 2]
//$ require block_m < 256 or cluster == 1 or pack_gqa == 0
//$ require pack_gqa == 0 or (plain_scores and sinks == 0 and dropout == 0)
//$ require dropout == 0 or layout == dense
//$ let consumers = block_m / 64
//$ let output_registers = output_columns / 2
//$ let p_steps = block_n / 16
//$ let scores_ahead = overlap == intra_warpgroup or overlap == both
//$ let pingpong_schedule = overlap == pingpong or overlap == both
//$ require not pingpong_schedule or consumers == 2
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ let k_bytes = panels * block_n * 128
//$ let v_bytes = panels_v * block_n * 128
//$ let q_panels = panels_v if store == tma and panels_v > panels else panels
//$ let q_bytes = q_panels * block_m * 128
//$ let p_panels = (block_n + 63) / 64
//$ let p_bytes = p_panels * block_m * 128 if p_in == p_shared else 0
//$ let q_stage_bytes = q_bytes + 16 * consumers
//$ let k_stage_bytes = k_bytes + 16
//$ let v_stage_bytes = v_bytes + 16
//$ if score_bias == bias_rows
//$ let bias_stages = 2
//$ let bias_bytes = bias_stages * consumers * (64 * 2 * (block_n + 8) + 16)
//$ else
//$ let bias_stages = 0
//$ let bias_bytes = 0
//$ end
//$ let least_bytes = q_stage_bytes + p_bytes + stages * (k_stage_bytes + v_stage_bytes) + bias_bytes + 64
//$ let q_stages = 2 if store == tma and scheduler == persistent and least_bytes + q_stage_bytes <= target_shared_bytes else 1
//$ let held_bytes = least_bytes + (q_stages - 1) * q_stage_bytes
//$ let k_stages = stages + 1 if scores_ahead and held_bytes + k_stage_bytes <= target_shared_bytes else stages
//$ let overlap_q_tiles = scheduler == persistent and scores_ahead and (store == direct or q_stages == 2) and (store == tma or head_dim_v <= 128)
//$ let shared_bytes = (held_bytes + (k_stages - stages) * k_stage_bytes + 1023) / 1024 * 1024
//$ let block_threads = 128 * (consumers + 1)
//$ let tile_rows = cluster * block_m
//$ let units = tile_rows / 64
//$ if page_size > 0 and block_n % 64 == 0
//$ let share = min(page_size, 64)
//$ elif page_size > 0 and block_n % 32 == 0
//$ let share = min(page_size, 32)
//$ elif page_size > 0
//$ let share = 16
//$ else
//$ let share = block_n / cluster
//$ end
//$ let skip_per_warpgroup = not pingpong_schedule
//$ let in_pairs = scheduler == persistent and mask == causal
//$ let kv_readers = consumers * cluster
//$ let strange_values = mask != none or layout != dense
//$ let q_readers = 128 if store == tma else 4 if q_in == q_registers else 1
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
//$ let p_registers_held = block_n / 4 if p_in == p_registers else 0
//$ let q_registers_held = (head_dim + 15) / 16 * 4 if q_in == q_registers else 0
//$ require block_n / 2 + p_registers_held + q_registers_held + head_dim_v / 2 + 32 <= consumer_registers
//$ note The part of a tile stands beside O: 256 x 48 spills at d 80.
//$ require split_keys == 0 or consumers < 4 or head_dim_v <= 64
//$ if split_keys > 0
//$ let blocks_at_once = 1
//$ let cluster_blocks = cluster
//$ end
//$ include "params/attention_tma.h"
//$ include "sequence/element.cuh"
//$ include "target/sm_90a.cuh"
//$ include "target/sm_90.cuh"
//$ include "pipeline/ring.cuh"

//$ note Sequences with lengths of their own: a block works on one of them.
//$ include "sequence/$layout.cuh" if layout != dense
// A tile of 16-bit elements is stored in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by TMA.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

//$ note The expressions of mask and score.
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "expression/split_key.cuh" if mask_lookup == by_pair or score_form == general

//$ note The scheduler of Q tiles: their rows, the number of blocks, the order.
//$ include "work/heads_packed.cuh" if pack_gqa == 1 else "work/heads_apart.cuh"
//$ include "pipeline/release.cuh"
//$ include "work/cluster.cuh" if cluster > 1 else "work/block.cuh"
//$ include "work/order_$tile_order.cuh"

//$ note The K/V tiles of a Q tile.
//$ include "walk/$mask_tiles.cuh"
//$ include "work/queue_parts.cuh" if split_keys > 0 else "work/queue_pairs.cuh" if in_pairs else "work/queue_tiles.cuh"
//$ if pack_gqa == 1
//$ tensor_map q rows 64 cols 64 packed
//$ else
//$ tensor_map q rows 64 cols 64
//$ end
//$ tensor_map k rows share cols 64
//$ tensor_map v rows share cols 64
//$ if dtype_out != fp32 and pack_gqa == 1
//$ tensor_map o rows 64 cols 64 packed
//$ elif dtype_out != fp32
//$ tensor_map o rows 64 cols 64
//$ end
//$ include "expression/bias_rows.cuh" if score_bias == bias_rows

struct alignas(1024) Shared {
    //$ if store == tma
    // O is stored from the buffer of its Q. With a second buffer, if it fits, the next tile starts before this one ends.
    //$ end
    Panels<Q_PANELS, 64> q[Q_STAGES][CONSUMERS];
    //$ if scores_ahead
    // K is read one iteration before V: one more stage of K, if it fits, gives both the same prefetch distance.
    //$ end
    Panels<PANELS, BLOCK_N> k[K_STAGES];
    Panels<PANELS_V, BLOCK_N> v[STAGES];
    Panels<P_PANELS, 64> p[CONSUMERS]; //$ if p_in == p_shared
    //$ if score_bias == bias_rows
    BiasRows bias[BIAS_STAGES][CONSUMERS];
    Barrier bias_full[BIAS_STAGES][CONSUMERS], bias_empty[BIAS_STAGES][CONSUMERS];
    //$ end
    Barrier q_full[Q_STAGES][CONSUMERS], q_empty[Q_STAGES][CONSUMERS];
    Barrier k_full[K_STAGES], k_empty[K_STAGES], v_full[STAGES], v_empty[STAGES];
    Barrier tile_full[2], tile_empty[2];
    Tile tile[2];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

// The next Q tile, as the scheduling thread (produce_tiles) has written it to shared memory.
__device__ __forceinline__ Tile take_tile(Shared &shared, Ring<2> &ring) {
    int stage = ring.stage();
    barrier_wait(&shared.tile_full[stage], ring.parity());
    Tile tile = shared.tile[stage];
    ring.count++;
    return tile;
}

//$ note The producers: each waits for an empty stage and fills it; the bytes complete its full barrier.
//$ include "load/tiles_of_queries.cuh"
//$ include "load/tiles_of_paged_keys.cuh" if page_size > 0 else "load/tiles_of_keys.cuh"
//$ include "load/bias_rows.cuh" if score_bias == bias_rows

//$ note The consumers: operands of the MMAs, masks, scores, softmax.
//$ include "fragment/$q_in.cuh"
//$ include "fragment/$p_in.cuh"
//$ include "fragment/mask_$mask_tiles.cuh"
//$ include "fragment/score_bias_rows.cuh" if score_bias == bias_rows else "fragment/score_$score_form.cuh" if score_form != plain_score
//$ include "fragment/softmax_exponents.cuh" if folded else "fragment/softmax_products.cuh"
//$ include "fragment/sinks.cuh" if sinks > 0
//$ include "fragment/drop_weights.cuh" if dropout == 1
//$ include "pipeline/consumer.cuh"
//$ include "store/lse.cuh"
//$ include "store/parts.cuh" if split_keys > 0
//$ include "store/tma.cuh" if store == tma else "store/direct_fp32.cuh" if dtype_out == fp32 else "store/direct_16bit.cuh"
//$ include "store/repeated_rows.cuh" if strange_values
//$ include "store/finish.cuh"
//$ include "pipeline/rescale_from_sum.cuh" if rescale == from_sum else "pipeline/rescale_on_growth.cuh"
//$ include "pipeline/q_tiles_overlapped.cuh" if overlap_q_tiles
//$ include "pipeline/q_tiles_in_sequence.cuh" if scores_ahead and not overlap_q_tiles
//$ include "pipeline/keys_in_sequence.cuh" if not scores_ahead
//$ include "store/nothing.cuh" if layout == dense else "store/nothing_of_tile.cuh"
//$ include "store/combine.cuh" if split_keys > 0

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(Shared &shared) {
    for (int stage = 0; stage < Q_STAGES; stage++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_init(&shared.q_full[stage][consumer], 1);
            // Every thread of the consumer arrives once its part of O is in the buffer. //$ if store == tma
            barrier_init(&shared.q_empty[stage][consumer], Q_READERS);
        }
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(&shared.v_full[stage], 1);
        barrier_init(&shared.v_empty[stage], KV_READERS);
    }
    for (int stage = 0; stage < K_STAGES; stage++) {
        barrier_init(&shared.k_full[stage], 1);
        barrier_init(&shared.k_empty[stage], KV_READERS);
    }
    for (int stage = 0; stage < 2; stage++) {
        barrier_init(&shared.tile_full[stage], 1);
        //$ if score_bias == bias_rows
        barrier_init(&shared.tile_empty[stage], 3 + 4 * CONSUMERS); // the other producers, warps of consumers
        //$ else
        barrier_init(&shared.tile_empty[stage], 2 + 4 * CONSUMERS); // producers of K and V, warps of consumers
        //$ end
    }
    //$ if score_bias == bias_rows
    for (int stage = 0; stage < BIAS_STAGES; stage++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_init(&shared.bias_full[stage][consumer], 32); // lanes that copy
            barrier_init(&shared.bias_empty[stage][consumer], 4); // warps that read
        }
    //$ end
    barrier_init_fence();
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_flash_async(const __grid_constant__ attention_tma_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    if (warp_index() == 0 && elect_one()) {
        tma_prefetch(&p.q_map);
        tma_prefetch(&p.k_map);
        tma_prefetch(&p.v_map);
        init_barriers(shared);
    }
    grid_dependency_wait();
    //$ if layout == dense
    if (p.attention.len_kv == 0)
        return write_nothing(p.attention);
    //$ else
    TileQueue queue = tile_queue(p.attention);
    const Tile tile = next_tile(p.attention, queue);
    const attention_params own = sequence_of(p.attention, tile.batch);
    if (tile.query >= own.len_q)
        return;
    //$ if split_keys > 0
    if (!has_part(own, tile) || (own.splits > 1 && own.len_kv == 0))
        return; // attention_combine writes what no part has
    //$ end
    if (own.len_kv == 0)
        return write_nothing(own, tile);
    //$ end
    //$ if cluster > 1
    __syncwarp();
    cluster_arrive(); // the barriers of every block are initialised
    cluster_wait();
    //$ else
    __syncthreads();
    //$ end
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        // Evaluate both while the warp is converged: a shuffle after elect_one() would hang.
        int warp = warp_index();
        bool elected = elect_one();
        //$ if layout == dense
        if (warp == 0 && elected)
            produce_tiles(p, shared);
        else if (warp == 1 && elected)
            produce_keys<PANELS, K_STAGES>(p.attention, shared, p.k_map, shared.k, shared.k_full, shared.k_empty);
        else if (warp == 2 && elected)
            produce_keys<PANELS_V, STAGES>(p.attention, shared, p.v_map, shared.v, shared.v_full, shared.v_empty);
        //$ if score_bias == bias_rows
        else if (warp == 3)
            produce_bias_rows(p.attention, shared);
        //$ end
        //$ else
        //$ if layout == ragged
        if (warp == 0 && elected)
            produce_tiles(p, shared, own.first_q);
        //$ else
        if (warp == 0 && elected)
            produce_tiles(p, shared);
        //$ end
        else if (warp == 1 && elected)
            produce_keys<PANELS, K_STAGES>(own, shared, p.k_map, shared.k, shared.k_full, shared.k_empty);
        else if (warp == 2 && elected)
            produce_keys<PANELS_V, STAGES>(own, shared, p.v_map, shared.v, shared.v_full, shared.v_empty);
        //$ if score_bias == bias_rows
        else if (warp == 3)
            produce_bias_rows(own, shared);
        //$ end
        //$ end
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        Consumer consumer(p.attention, shared, warpgroup_index() - 1); //$ if layout == dense
        Consumer consumer(own, shared, warpgroup_index() - 1);         //$ else
        //$ if pingpong_schedule
        if (consumer.index == 1)
            named_barrier_arrive(1, 256); // warpgroup 0 takes the first turn
        //$ end
        run(consumer);
        //$ if pingpong_schedule
        if (consumer.index == 0)
            named_barrier_sync(1, 256); // take the last turn, which the other warpgroup hands over
        //$ end
    }
    //$ if cluster > 1
    __syncwarp();
    cluster_arrive(); // no other block accesses the shared memory of this one any more
    cluster_wait();
    //$ end
}
