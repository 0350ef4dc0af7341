// Tiled attention on the tensor cores of every GPU since compute capability 8.0: FlashAttention-2 (arXiv 2307.08691). All
// threads copy; each warp multiplies 16 or 32 rows of its own, and S, P and O stay in its registers.
//
//     Q of BLOCK_M queries       to shared memory, and from there optionally to registers
//     for each K/V tile          S = Q K^T, softmax, O += P V, while copies of the next tiles are in flight
//
// A warp holds 16 rows of one unit of 64 queries, or 16 rows of each of two units: then its loads of K and V serve 32 rows.
//$ include "attention_flash_mma.cuh"
//$ include "params/attention.h"
//$ include "sequence/element.cuh"
//$ include "target/sm_80.cuh"
//$ include "target/sm_90.cuh"

//$ note Per-sequence lengths: a block works on one sequence.
//$ include "sequence/$layout.cuh" if layout != dense

//$ note The expressions of mask and score.
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "expression/split_key.cuh" if mask_lookup == by_pair or score_form == general

//$ note Q tiles: their rows and their order.
//$ include "work/heads_packed.cuh" if pack_gqa == 1 else "work/heads_apart.cuh"
//$ include "work/order_$tile_order.cuh"

//$ note The K/V tiles of a Q tile.
//$ include "walk/$mask_tiles.cuh"
//$ include "work/part_of_block.cuh" if split_keys > 0 else "work/tile_of_block.cuh"
//$ include "load/queries_by_threads.cuh"
//$ include "load/paged_keys_by_threads.cuh" if page_size > 0 else "load/keys_by_threads.cuh"
//$ include "load/bias_tile.cuh" if score_bias == bias_rows

struct Shared {
    Rows16<BLOCK_M, CHUNKS> q;
    Rows16<BLOCK_N, CHUNKS> k[STAGES];
    Rows16<BLOCK_N, CHUNKS_V> v[STAGES];
    BiasTiles bias; //$ if score_bias == bias_rows
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

//$ note Masks, scores, softmax, products.
//$ include "fragment/mask_$mask_tiles.cuh"
//$ include "fragment/score_bias_tile.cuh" if score_bias == bias_rows else "fragment/score_$score_form.cuh" if score_form != plain_score
//$ include "fragment/softmax_exponents.cuh" if folded else "fragment/softmax_products.cuh"
//$ include "fragment/sinks.cuh" if sinks > 0
//$ include "fragment/drop_weights.cuh" if dropout == 1
//$ include "fragment/unit_rows.cuh"
//$ include "fragment/query_rows.cuh"
//$ include "fragment/warp_products_tf32.cuh" if dtype == fp32 else "fragment/warp_products.cuh"

using Consumer = UnitRows; // holds O at the end
//$ include "store/lse.cuh"
//$ include "store/parts.cuh" if split_keys > 0
//$ include "store/direct_fp32.cuh" if dtype_out == fp32 else "store/direct_16bit.cuh"
//$ include "store/repeated_rows.cuh" if nonfinite_values
//$ include "store/of_some_keys.cuh" if split_keys > 0 else "store/of_all_keys.cuh"
//$ include "store/finish.cuh"
//$ include "pipeline/repeat_from_shared.cuh" if rescale == from_sum and stages > 1
//$ include "pipeline/repeat_from_memory.cuh" if rescale == from_sum and stages == 1
//$ include "pipeline/tiles_from_sum.cuh" if rescale == from_sum else "pipeline/tiles_on_growth.cuh"
//$ include "pipeline/begin_by_halves.cuh" if rescale == from_sum and overlap == halves
//$ include "pipeline/begin_at_once.cuh" if rescale == from_sum and overlap != halves
//$ include "pipeline/copies_ahead.cuh" if stages > 1 else "pipeline/copies_in_turn.cuh"
//$ include "store/nothing.cuh" if layout == dense else "store/nothing_of_tile.cuh"
//$ include "store/combine.cuh" if split_keys > 0

// Sets the Q tile that the unit belongs to, and starts its walk, its rows and its O.
__device__ __forceinline__ void begin_unit(UnitRows &rows, const Tile &tile) {
    rows.unit.tile = tile;
    rows.unit.where = {tile.batch, tile.head, tile.kv_head}; //$ if mask == custom_mask or score == custom_score
    //$ if split_keys > 0 and mask == causal and rescale == from_sum
    rows.walk = walk_of_unit(rows.p, tile, warp_index() / 4 * ROW_TILES); // the first unit sees least; one walk takes fewer registers
    //$ else
    rows.walk = walk_of_unit(rows.p, tile, rows.unit.index);
    //$ end
    rows.begin_rows();
    rows.begin_output();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_flash_mma(const __grid_constant__ attention_params p) {   //$ if layout == dense
    attention_flash_mma(const __grid_constant__ attention_params all) { //$ else
    Shared &shared = *dynamic_shared<Shared>();
    grid_dependency_wait(); //$ if dependent_launches == 1
    //$ if layout == dense
    if (p.len_kv == 0)
        return write_nothing(p);
    const Tile tile = tile_of_block(p);
    if (!has_part(p, tile)) return; //$ if split_keys > 0
    //$ else
    const Tile tile = tile_of_block(all);
    const attention_params p = sequence_of(all, tile.batch);
    if (!has_work(p, tile))
        return;
    //$ end
    KeyCopies copies(p, tile);
    copy_queries(p, tile, shared.q);
    begin_bias(p, tile, shared.bias); //$ if score_bias == bias_rows
    begin_copies(copies, shared);

    const int first = warp_index() / 4 * ROW_TILES; // unit
    UnitRows units[ROW_TILES] = {UnitRows(p, shared, first), UnitRows(p, shared, first + 1)}; //$ if row_tiles == 2
    UnitRows units[ROW_TILES] = {UnitRows(p, shared, first)};                                 //$ else
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        begin_unit(units[r], tile);
    await_queries();
    settle_queries(p, tile, shared.q); //$ if dtype != fp32
    if (p.scale < 0) negate_queries(shared.q); //$ if score != custom_score
    //$ if q_in == q_registers
    Queries q;
#pragma unroll
    for (int step = 0; step < Q_STEPS; step++)
        load_query_step(q.pairs[step], first_query_step(shared.q, threadIdx.x), step);
    //$ else
    const Queries q = {shared.q};
    //$ end
    go_over_keys(copies, shared, units, q);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        units[r].unit.tile = tile_of_block(p);   //$ if layout == dense
        units[r].unit.tile = tile_of_block(all); //$ else
        finish(units[r], units[r].unit, 0);
    }
}
