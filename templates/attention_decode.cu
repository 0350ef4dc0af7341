// Attention of few queries over many keys, as in decoding: K and V must stream in without a pause. The rows of all query heads
// that share a K/V head form one Q tile, so K and V are read once for the group.
//
//     S^T = K Q^T, softmax over the keys, O^T += V^T P^T      keys are the 16 rows of an MMA, rows of Q its 8 columns
//
// Each warp copies K/V tiles into its own stages and multiplies them. Warps wait for each other only at the end of a Q tile,
// when they merge their partial results. Blocks take equally long runs of K/V tiles; a second launch combines the parts of
// those Q tiles that several blocks worked on.
//$ include "attention_decode.cuh"
//$ include "params/attention.h"
//$ include "sequence/element.cuh"
//$ include "target/sm_80.cuh"
//$ include "target/sm_90.cuh"

//$ note Per-sequence lengths: a Q tile belongs to one sequence.
//$ include "sequence/$layout.cuh"

//$ note The expressions of mask and score.
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0

//$ note The rows of a Q tile, and the K/V tiles of each block.
//$ include "work/row_of_group.cuh"
//$ include "work/workers_blocks_or_warps.cuh" if apart else "work/workers_blocks.cuh" if batch_invariant == 0 and layout != dense
//$ include "work/runs_of_chunks.cuh" if batch_invariant == 1 else "work/runs_equal.cuh" if layout == dense else "work/runs_of_lengths.cuh"
//$ launch attention_decode grid (len_q * (heads / kv_heads) + block_m - 1) / block_m * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys) block threads shared shared_bytes dependent if batch_invariant == 1
//$ launch attention_decode grid sm_count block threads shared shared_bytes dependent if batch_invariant == 0
//$ include "walk/keys_of_group.cuh" if mask == custom_mask else "walk/keys_from_start.cuh"
//$ include "walk/keys_of_warp.cuh"
//$ include "load/paged_keys_by_warp.cuh" if page_size > 0 else "load/keys_by_warp.cuh"

struct Shared {
    Rows16<BLOCK_M, CHUNKS> q; //$ if not q_held
    KeyStage stage[WARPS][STAGES];
    PageNumbers pages[WARPS]; //$ if page_size > 0
    float o[WARPS][COLUMNS_V][8]; // of one group of 8 rows, scaled to the largest maximum
    float max[WARPS][BLOCK_M], sum[WARPS][BLOCK_M];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

//$ note Masks, scores, softmax, products.
//$ include "load/queries_for_bytes.cuh" if quantised == 1 else "load/queries_in_registers.cuh" if q_held else "load/queries_in_shared.cuh"
//$ include "fragment/rope_keys.cuh" if rope != none
//$ include "fragment/rope_queries_registers.cuh" if rope != none and q_held else "fragment/rope_queries_shared.cuh" if rope != none
//$ include "fragment/softmax_columns.cuh"
//$ include "fragment/halves_e4m3_by_shifts.cuh" if dtype_kv == e4m3 and target in [sm_80, sm_86] else "fragment/halves_$dtype_kv.cuh" if dtype_kv in [e4m3, e5m2, int8]
//$ include "fragment/products_of_bytes.cuh" if quantised == 1 else "fragment/products_of_columns.cuh"
//$ include "fragment/scores_scaled.cuh" if quantised == 1 and (dtype == bf16 or kv_scale != none)
//$ include "fragment/weights_scaled.cuh" if kv_scale == token else "fragment/weights_of_columns.cuh"
//$ include "fragment/scale_output.cuh" if kv_scale in [tensor, head]

//$ note The output: new tokens for the cache; O, or partial results that a second launch combines.
//$ include "store/new_tokens.cuh" if append == 1
//$ include "store/columns.cuh"
//$ include "store/parts_of_chunks.cuh" if batch_invariant == 1 else "store/parts_of_workers.cuh" if apart else "store/parts_of_runs.cuh"
//$ include "pipeline/merge_warps.cuh"
//$ include "store/columns_of_warp.cuh" if apart else "store/shares.cuh"
//$ include "store/shares_of_chunks.cuh" if batch_invariant == 1 else "store/shares_of_runs.cuh" if not apart
//$ include "store/combine_borders_launch.cuh" if apart else "store/combine_launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_decode(const __grid_constant__ attention_params all) {
    Shared &shared = *dynamic_shared<Shared>();
    grid_dependency_wait(), launch_dependents(); // the plan reads lengths from memory //$ if dependent_launches == 1 and layout != dense
    const Plan plan = plan_of(all, gridDim.x);
    grid_dependency_wait(), launch_dependents(); //$ if dependent_launches == 1 and layout == dense
    const int place = place_of_warp(), worker = plan.warps == 1 ? place : blockIdx.x; //$ if apart
    const unsigned worker = blockIdx.x;                                               //$ else
    if (worker >= plan.workers)
        return append_tokens(all), leave_no_border(all, place); //$ if append == 1 and apart
        return append_tokens(all);                              //$ elif append == 1
        return leave_no_border(all, place);                     //$ elif apart
        return;                                                 //$ else
    const Start start = start_of(all, plan, worker);
    leave_borders(all, plan, start, worker, place); //$ if apart
    const Run &run = start.run;
    //$ if batch_invariant == 1
    if (run.first >= run.end)
        return append_tokens(all); //$ if append == 1
        return;                    //$ else
    //$ end
    Tile tile = start.tile;
    const attention_params &p = all;                   //$ if layout == dense
    attention_params p = sequence_of(all, tile.batch); //$ else
    QueriesAhead ahead = load_queries(p, tile); // before K and V: issued after them, Q would wait until they arrive //$ if q_ahead
    KeyCopies copies(all, run, tile, shared.stage[warp_index()], shared.pages[warp_index()]); //$ if page_size > 0
    KeyCopies copies(all, run, tile, shared.stage[warp_index()]);                             //$ else
    bool appended = false; //$ if append == 1
    Queries q;              //$ if q_held
    Queries q = {shared.q}; //$ else
    Columns columns(p, tile);
    ValueUnit values; //$ if kv_scale == token
    KeyWalk walk;
    int stage = 0;
#pragma unroll 1
    for (bool begins = true;;) {
        copies.fill();
        if (begins) {
            //$ if append == 1
            if (!appended)
                append_tokens(all); // while K and V are in flight
            appended = true;
            //$ end
            columns.begin();
            //$ if sinks > 0
            if (run.first <= tile.first && (warps_of(run) == 1 || warp_index() == 0))
                columns.add_sinks();
            //$ end
            walk = walk_of_warp(p, run, tile);
            q.begin(ahead);                                                    //$ if q_ahead
            q.begin(load_queries(p, tile)); // K and V are in flight meanwhile //$ else
            values.begin(); //$ if kv_scale == token
            //$ if q_ahead
            if (!is_last(run, tile)) {
                const Tile following = next_tile(all, tile);
                ahead = load_queries(sequence_of(all, following.batch), following);
            }
            //$ end
            rotate_queries(all, p, tile, q); //$ if rope != none
            begins = false;
        }
        if (walk.tile < walk.end) {
            copies.await();
            rotate_new_keys(all, p, shared.stage[warp_index()][stage], walk.tile * BLOCK_N); //$ if rope != none
            const KeyStage &keys = shared.stage[warp_index()][stage];
            const bool masked = is_masked(walk);
            Scores s;
            multiply_scores(s, q, keys.k);
            scale_scores(s, q, keys); //$ if quantised == 1 and (dtype == bf16 or kv_scale != none)
            columns.finish_scores(s, walk.tile * BLOCK_N, masked);
            columns.weigh(s);
            const Weights weights = values.weights_of(s, keys.v_scale, columns.o); //$ if kv_scale == token
            const Weights weights = weights_of(s);                                 //$ else
            multiply_output(columns.o, weights, keys.k, masked); // V is the first columns of K //$ if shared_kv == 1
            multiply_output(columns.o, weights, keys.v, masked);                                //$ else
            __syncwarp(); // all lanes have read the stage
            stage = stage + 1 < STAGES ? stage + 1 : 0;
            walk.tile += warps_of(run);
            continue;
        }
        values.end(columns.o);              //$ if kv_scale == token
        scale_output(columns.o, q.v_scale); //$ elif kv_scale in [tensor, head]
        store_or_merge(shared, columns, p, run, tile, worker); //$ if apart
        merge_warps(shared, columns, p, run, tile);            //$ else
        if (is_last(run, tile))
            break;
        const int batch = tile.batch; //$ if layout != dense
        tile = next_tile(all, tile);
        //$ if layout != dense
        if (tile.batch != batch)
            p = sequence_of(all, tile.batch);
        //$ end
        begins = true;
    }
}
