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
//$ include "attention_flash_async.cuh"
//$ include "params/attention_tma.h"
//$ include "sequence/element.cuh"
//$ include "target/sm_90a.cuh"
//$ include "target/sm_90.cuh"
//$ include "pipeline/ring.cuh"

//$ note Per-sequence lengths: a block works on one sequence.
//$ include "sequence/$layout.cuh"
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
//$ include "work/queue_parts_or_pairs.cuh" if split_keys > 0 and in_pairs else "work/queue_parts.cuh" if split_keys > 0
//$ include "work/queue_of_sequences.cuh" if changes_sequence else "work/queue_pairs.cuh" if split_keys == 0 and in_pairs else "work/queue_tiles.cuh" if split_keys == 0
//$ tensor_map q rows 64 cols 64 packed if pack_gqa == 1 else q rows 64 cols 64
//$ tensor_map k rows share cols 64
//$ tensor_map v rows share cols 64
//$ tensor_map o rows 64 cols 64 packed if dtype_out != fp32 and pack_gqa == 1 else o rows 64 cols 64 if dtype_out != fp32
//$ include "expression/bias_rows.cuh" if score_bias == bias_rows

struct alignas(1024) Shared {
    // O is stored from the buffer of its Q. With a second buffer, if it fits, the next tile starts before this one ends. //$ if store == tma
    Panels<Q_PANELS, 64> q[Q_STAGES][CONSUMERS];
    // K is read one iteration before V: one more stage of K, if it fits, gives both the same prefetch distance. //$ if scores_ahead
    Panels<PANELS, BLOCK_N> k[K_STAGES];
    Panels<PANELS_V, BLOCK_N> v[STAGES];
    Panels<P_PANELS, 64> p[CONSUMERS]; //$ if p_in == p_shared
    BiasStages bias;                   //$ if score_bias == bias_rows
    Barrier q_full[Q_STAGES][CONSUMERS], q_empty[Q_STAGES][CONSUMERS];
    Barrier k_full[K_STAGES], k_empty[K_STAGES], v_full[STAGES], v_empty[STAGES];
    Barrier tile_full[2], tile_empty[2];
    Tile tile[2];
    SequenceNumbers sequence[2]; // of the tiles //$ if changes_sequence
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

// Hands a Q tile to the other roles through shared memory.
__device__ __forceinline__ void hand_out(Shared &shared, Ring<2> ring, Tile tile, const SequenceNumbers &sequence) { //$ if changes_sequence
__device__ __forceinline__ void hand_out(Shared &shared, Ring<2> ring, Tile tile) {                           //$ else
    shared.tile[ring.stage()] = tile;
    shared.sequence[ring.stage()] = sequence; //$ if changes_sequence
    barrier_arrive(&shared.tile_full[ring.stage()]);
}

// Waits for the next Q tile that is handed out, and returns it.
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
//$ include "pipeline/turns_pingpong.cuh" if pingpong_schedule else "pipeline/turns_free.cuh"
//$ include "pipeline/consumer.cuh"
//$ include "pipeline/take_seen_keys.cuh" if skip_per_warpgroup else "pipeline/take_all_keys.cuh"
//$ include "fragment/negate_queries.cuh" if score != custom_score
//$ include "pipeline/await_$q_in.cuh"
//$ include "store/lse.cuh"
//$ include "store/parts.cuh" if split_keys > 0
//$ include "store/tma.cuh" if store == tma else "store/direct_fp32.cuh" if dtype_out == fp32 else "store/direct_16bit.cuh"
//$ include "store/repeated_rows.cuh" if nonfinite_values
//$ include "store/of_some_keys.cuh" if split_keys > 0 else "store/of_all_keys.cuh"
//$ include "store/finish.cuh"
//$ include "pipeline/search_plain.cuh" if rescale == from_sum and plain_scores
//$ include "pipeline/search_scored.cuh" if rescale == from_sum and not plain_scores
//$ include "pipeline/repeat_softmax.cuh" if rescale == from_sum
//$ include "pipeline/raise_to_scores.cuh" if rescale == from_sum and dropout == 1
//$ include "pipeline/raise_to_weights.cuh" if rescale == from_sum and dropout == 0
//$ include "pipeline/rescale_from_sum.cuh" if rescale == from_sum else "pipeline/rescale_on_growth.cuh"
//$ include "pipeline/keys_ahead_peeled.cuh" if scores_ahead and plain_scores else "pipeline/keys_ahead_unpeeled.cuh" if scores_ahead
//$ include "pipeline/q_tiles_overlapped.cuh" if overlap_q_tiles
//$ include "pipeline/q_tiles_in_sequence.cuh" if scores_ahead and not overlap_q_tiles
//$ include "pipeline/keys_in_sequence.cuh" if not scores_ahead
//$ include "store/nothing.cuh" if layout == dense else "store/nothing_of_sequences.cuh" if changes_sequence else "store/nothing_of_tile.cuh"
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
        barrier_init(&shared.tile_empty[stage], 3 + 4 * CONSUMERS); // the other producers, warps of consumers //$ if score_bias == bias_rows
        barrier_init(&shared.tile_empty[stage], 2 + 4 * CONSUMERS); // producers of K and V, warps of consumers //$ else
    }
    init_barriers(shared.bias); //$ if score_bias == bias_rows
    barrier_init_fence();
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_flash_async(const __grid_constant__ attention_tma_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    const bool leader = warp_index() == 0 && elect_one();
    if (leader) {
        tma_prefetch(&p.q_map);
        tma_prefetch(&p.k_map);
        tma_prefetch(&p.v_map);
        init_barriers(shared);
    }
    grid_dependency_wait(); // the next lines may read what the previous launch writes
    TileQueue queue = tile_queue(p.attention);
    const Tile first = next_tile(p.attention, queue);
    if (leader)
        hand_out(shared, {0}, first, queue.sequence); // all roles begin with it at once //$ if changes_sequence
        hand_out(shared, {0}, first); // all roles begin with it at once                 //$ else
    const attention_params &own = p.attention; // sequences are alike //$ if layout == dense
    //$ if changes_sequence
    write_nothing(p.attention);
    if (first.query < 0)
        return;
    attention_params own = p.attention; // parameters of the sequence of the consumer's Q tile, once it has one
    //$ elif layout != dense
    const attention_params own = sequence_of(p.attention, first.batch);
    if (!has_work(own, first))
        return;
    //$ else
    if (own.len_kv == 0) return write_nothing(own);
    //$ end
    sync_blocks(); // the barriers are initialised
    const int group = warpgroup_index();
    if (group == 0) {
        registers_release<PRODUCER_REGISTERS>();
        // Evaluate both while the warp is converged: a shuffle after elect_one() would hang.
        int warp = warp_index();
        bool elected = elect_one();
        if (warp == 0 && elected)
            produce_tiles(p, shared, queue);
        else if (warp == 1 && elected)
            produce_keys<PANELS, K_STAGES>(p.attention, shared, p.k_map, shared.k, shared.k_full, shared.k_empty);
        else if (warp == 2 && elected)
            produce_keys<PANELS_V, STAGES>(p.attention, shared, p.v_map, shared.v, shared.v_full, shared.v_empty);
        else if (warp == 3)                         //$ if score_bias == bias_rows
            produce_bias_rows(p.attention, shared); //$ if score_bias == bias_rows
    //$ if head_dim > 64
    }
    // Two conditions, of which the compiler cannot see that they exclude each other: it would place the code of the producers behind that of
    // the consumers, and a short launch would wait for it.
    if (opaque(group) != 0) {
    //$ else
    } else {
    //$ end
        registers_acquire<CONSUMER_REGISTERS>();
        Consumer consumer(p.attention, own, shared, warpgroup_index() - 1); //$ if changes_sequence
        Consumer consumer(own, shared, warpgroup_index() - 1);              //$ else
        begin_turns(consumer.index); //$ if pingpong_schedule
        run(consumer);
        end_turns(consumer.index); //$ if pingpong_schedule
    }
    sync_blocks(); // no other block accesses the shared memory of this one any more //$ if cluster > 1
}
