#!/usr/bin/env python3
"""Mutation test: does a test fail when the C code is wrong?

    tests/mutate.py                 every mutant of the table below
    tests/mutate.py --only cache    those with this word in their file or text
    tests/mutate.py --list          prints the table, runs nothing

Makes one change at a time in a copy of the tree, builds what it affects, and runs the named test programs until one
fails. A mutant survives if all of them pass: then a test is missing, or the line is unnecessary. Takes hours on two
cores, most of them for gradients, so it is not part of .ci/run. Exit status: 0 = all caught, 1 = some survived, 2 = the
table is wrong (a text does not occur exactly once, a change does not compile, or a test fails without any change).
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600  # seconds that a test program may take; one that hangs has caught the mutant

GRADIENT_CHOICE = "test_choose/choose/short_gradients* test_choose"

# file, text that occurs there exactly once, its replacement, test programs of which one has to fail; after a slash, a
# pattern of tests, for a program that takes long
MUTANTS = [
    # --- runtime: what is trusted -------------------------------------------------------------------------------------
    ("runtime/template_folder.c", """for (const char *part = name; part; part = strchr(part, '/')) {""",
     """for (const char *part = name; part; part = NULL) {""", "test_origin"),
    ("runtime/nvrtc.c", """secure_getenv("ATTILE_NVRTC")""", """getenv("ATTILE_NVRTC")""", "test_session"),
    ("runtime/session.c", """secure_getenv("ATTILE_TUNED")""", """getenv("ATTILE_TUNED")""", "test_session"),
    ("runtime/session.c", """        return; /* the device and all locks belong""", """        ; /* the device and all locks belong""",
     "test_session test_find"),
    ("runtime/cache_entry.c", "if (memcmp(bytes + body, trailer, TRAILER) != 0)", "if (bytes[body] != trailer[0])",
     "test_cache_entry test_cache_faults"),
    ("runtime/cache_entry.c", "payload_size != left - preimage_size - meta_size",
     "payload_size > left - preimage_size - meta_size", "test_cache_entry"),
    ("runtime/cache_entry.c", "meta_size > left - preimage_size ||", "meta_size > left ||", "test_cache_entry"),
    ("runtime/cache_dir.c", "if (fstat(directory, &status) == 0 && cache_trusted(&status, why))",
     "if (fstat(directory, &status) == 0)", "test_cache_dir test_cache"),
    ("runtime/cache_dir.c", "int part = open_trusted(root, name, O_NOFOLLOW, why);",
     "int part = open_trusted(root, name, 0, why);",
     "test_cache_dir"),
    ("runtime/cache_dir.c", "if (getauxval(AT_SECURE))", "if (0)", "test_cache_dir"),
    ("runtime/cache_dir.c", "if (places[0].base && places[0].base[0] != '/') {", "if (0) {", "test_cache_dir"),
    # --- runtime: the cache -------------------------------------------------------------------------------------------
    ("runtime/cache_sweep.c", "if (now.st_ino != then->st_ino || now.st_size != then->st_size || "
     "now.st_mtim.tv_sec != then->st_mtim.tv_sec ||\n        now.st_mtim.tv_nsec != then->st_mtim.tv_nsec) {", "if (0) {",
     "test_cache_race test_cache_admin"),
    ("runtime/cache_sweep.c", "age >= seconds || -age > CACHE_TEMPORARY", "age >= seconds", "test_cache_admin"),
    ("runtime/cache_sweep.c", "tally->error = errno == EBUSY ? tally->error : errno;", "tally->error = errno;",
     "test_cache_race"),
    ("runtime/cache_lock.c", "if (now_ns() >= end)", "if (0)", "test_cache test_cache_faults test_cache_storm"),
    ("runtime/cache_lock.c", "if (flock(file, LOCK_EX | LOCK_NB) == 0)", "if (1)", "test_cache test_cache_storm"),
    ("runtime/cache_key.c", "return key->preimage.size == size && memcmp(key->preimage.bytes, preimage, size) == 0;",
     "(void)preimage;\n    return key->preimage.size == size;", "test_cache test_cache_entry test_cache_faults"),
    ("runtime/cache_key.c", "*size >= (size_t)(end - at)", "*size > (size_t)(end - at)", "test_cache_entry test_cache"),
    ("runtime/kernel.c", "if (status != ATT_LAUNCH_FAILED)\n            return status;",
     "if (status == ATT_OK)\n            return status;", "test_driver_session test_find test_cache_inputs"),
    ("runtime/kernel.c", "if (!hit || attempt > 0)", "if (attempt > 0)", "test_driver_session"),
    ("runtime/kernel.c", """{"toolchain", text_string(&build->toolchain)},""", """{"toolchain", ""},""",
     "test_cache_inputs test_find"),
    ("runtime/host/compiler.c", "XXH3_128bits(words.bytes, words.size)", "XXH3_128bits(words.bytes, 0)", "test_compiler"),
    ("runtime/host/compiler.c", """    print_options(text, options_mode[mode]);
    print_options(text, options_cpu());
    print_options(text, options_link);""", """    print_options(text, options_mode[mode]);
    print_options(text, options_link);""", "test_compiler"),
    ("runtime/host/compiler.c", "if (status == ATT_OK && !good)\n        status = failure_set(failure, ATT_COMPILE_FAILED",
     "if (0)\n        status = failure_set(failure, ATT_COMPILE_FAILED", "test_compiler test_host"),
    # --- runtime: bundles and plans -----------------------------------------------------------------------------------
    ("runtime/bundle.c", "if (used ? !knob_same(knobs, &variant->knobs, id) : knob_get(knobs, id) != AUTO)",
     "if (used && !knob_same(knobs, &variant->knobs, id))", "test_bundle"),
    ("runtime/bundle.c", "built_number <= device_number", "built_number < device_number", "test_bundle"),
    ("runtime/plan_text.c", "if (!operand && depth < 2)", "if (!operand && depth < 1)", "test_bundle"),
    ("runtime/plan_text.c", "plan->launches > 0 && is_word", "is_word", "test_bundle"),
    ("gen/plan/plan.c", "if (b == 0 || (a == INT64_MIN && b == -1))", "if (b == 0)", "test_plan"),
    ("gen/plan/plan.c", "*result = a < b ? a : b; return true;", "*result = a > b ? a : b; return true;", "test_plan"),
    # --- runtime: arguments -------------------------------------------------------------------------------------------
    ("runtime/tensor_check.c", "output->begin >= other->end ||", "output->begin + 4 >= other->end ||", "test_arguments"),
    ("runtime/tensor_check.c", "if (output->in_place && same_place(output, other))", "if (same_place(output, other))",
     "test_arguments"),
    ("runtime/formula_args.c", "if (from->size[d] == expected &&", "if (from->size[d] >= expected &&",
     "test_masks test_formula test_launch"),
    ("runtime/tensor_maps.c", "if (step >= stride_most / tensor->element)", "if (step > stride_most / tensor->element)",
     "test_tensor_maps"),
    ("runtime/tensor_maps.c", "tensor->dim[dim].extent > 1 && dim != COLS", "dim != COLS", "test_tensor_maps"),
    ("runtime/tensor_maps.c", "memcmp(a->box, b->box, sizeof a->box) == 0", "true", "test_tensor_maps"),
    ("runtime/launch.c", "if (cluster && grids[i] % cluster)", "if (0)", "test_driver_session"),
    ("runtime/launch.c", "if (grids[i] > INT_MAX)", "if (0)", "test_launch"),
    ("runtime/launch.c", "if (!args->workspace && plan->splits", "if (0 && plan->splits", "test_splits"),
    ("runtime/arguments.c", "{offsetof(struct attention_params, splits), knobs_split_keys}",
     "{offsetof(struct attention_params, splits), has_formulas}", "test_arguments"),
    ("runtime/arguments.c", "{offsetof(struct attention_params, rope_turns), has_turns}",
     "{offsetof(struct attention_params, rope_turns), has_new_tokens}", "test_new_tokens"),
    ("runtime/new_tokens.c", "    tensor[PLAN_K].output = tensor[PLAN_V].output = true;\n", "", "test_new_tokens"),
    ("runtime/new_tokens.c", "    tensor[PLAN_V].beside = 1u << PLAN_K; /* views of one array */\n", "", "test_new_tokens"),
    ("runtime/new_tokens.c", "packed ? 0 : args->k_new.batch_stride", "args->k_new.batch_stride", "test_new_tokens"),
    ("runtime/new_tokens.c", "if (knobs->rope <= rope_none && check_no_rope", "if (0 && check_no_rope", "test_new_tokens"),
    ("runtime/rope.c", "args->rows < positions", "args->rows < 0", "test_append test_new_tokens"),
    ("runtime/shared_prefix.c", "if (steps->kernel[OWN]->variant.knobs.append > 0)", "if (0)", "test_shared_prefix"),
    ("runtime/choose_preferred.c", "knobs_quantised(&knobs) || knobs.append > 0;", "knobs_quantised(&knobs);",
     "test_choose"),
    ("gen/template/template.c", "row->family == family_attention_forward && knobs->append > 0)", "0)", "test_new_tokens"),
    ("gen/plan/splits.c", "waves * on / tiles < most ? waves * on / tiles : most;", "most;", "test_plan"),
    ("runtime/sized.c", "if (((const char *)callers)[i])", "if (0)", "test_sized"),
    ("runtime/sized.c", "memcpy(callers, known, size < now ? size : now);", "memcpy(callers, known, size);", "test_sized"),
    ("runtime/arguments.c", "if ((int)found == expected)", "if (1)", "test_arguments"),
    ("runtime/bundle.c", "if (is_ptx(kernel->arch) != ptx || ", "if (", "test_driver_session"),
    # --- runtime: the cuda device -------------------------------------------------------------------------------------
    ("runtime/backend_cuda.c", "if (launch->shared > backend->shared_most)", "if (launch->shared >= backend->shared_most)",
     "test_driver"),
    ("runtime/backend_cuda.c", "    backend->api.capture_mode(&mode);\n    leave(backend);\n    if (status != ATT_OK) {",
     "    leave(backend);\n    if (status != ATT_OK) {", "test_driver"),
    ("runtime/backend_cuda.c", "    if (cluster)\n        attributes", "    attributes", "test_driver"),
    ("runtime/backend_cuda.c", "backend->major >= 9 && version >= DEPENDENTS_IN_GRAPHS", "version >= DEPENDENTS_IN_GRAPHS",
     "test_driver"),
    ("runtime/backend_cuda.c", "backend->major >= 9 && version >= DEPENDENTS_IN_GRAPHS", "backend->major >= 9",
     "test_driver"),
    ("runtime/backend_cuda.c", "module->launch[launch].dependent && atomic_load", "atomic_load", "test_driver"),
    ("runtime/backend_cuda.c", "if (dependent && (error == CUDA_INVALID_VALUE || error == CUDA_NOT_SUPPORTED)) {",
     "if (dependent && error != CUDA_OK) {", "test_driver"),
    ("runtime/backend_cuda.c", "        if (error == CUDA_OK) /* the driver", "        if (0) /* the driver", "test_driver"),
    ("runtime/host/block.c", "fiber->depends = fiber->waits = launch->dependent;", "fiber->depends = fiber->waits = false;", "test_host"),
    ("runtime/host/block.c", "    if (ended)\n        fiber->waits = false;", "    fiber->waits = false;", "test_host"),
    ("runtime/host/block.c", "        fiber_check_dependency(fiber, 0, pc);\n", "", "test_host"),
    ("gen/source/expand.c", "op->dependent && target_starts", "target_starts", "test_expand"),
    ("runtime/backend_cuda.c", "strides[i] = (uint64_t)request->stride[i] * element;",
     "strides[i] = (uint64_t)request->stride[i] * 2;", "test_driver"),
    ("runtime/backend_cuda.c", "return error == CUDA_DEINITIALIZED ? ATT_OK\n                                       :",
     "return", "test_driver"),
    ("runtime/backend_cuda.c", "backend->api.event_elapsed(&milliseconds, backend->event_start, backend->event_stop)",
     "backend->api.event_elapsed(&milliseconds, backend->event_stop, backend->event_start)", "test_driver"),
    ("runtime/cuda_api.c", "error == CUDA_OUT_OF_MEMORY ? ATT_OUT_OF_MEMORY : status", "status", "test_driver"),
    ("runtime/compile_log.c", "if (at && (!first || at < first))", "if (at)", "test_compile_log"),
    ("runtime/choose_measured.c", "if (rival->score < (best ? best->score : INFINITY))",
     "if (!best || rival->score > best->score)", "test_choose"),
    ("runtime/tables.c", "if (tables->own && tuned_is_for(tables->own, device))\n        list", "if (tables->own)\n        list",
     "test_choose test_tuned"),
    # --- gen ----------------------------------------------------------------------------------------------------------
    ("text/text.c", "while (room < need)", "while (room < need - 1)", "test_text"),
    ("text/text.c", "(size_t)size >= room && grow", "(size_t)size > room && grow", "test_text"),
    ("gen/expr/expr_eval.c", "if (left == INT64_MIN)", "if (0)", "test_expr"),
    ("gen/expr/expr_eval.c", "if ((left != 0) == (n->op == TREE_OR)) {", "if ((left != 0) == (n->op == TREE_AND)) {", "test_expr"),
    ("gen/formula/formula_bound.c", "{two(b, n->op, x.least, y.most), two(b, n->op, x.most, y.least)};\n    default",
     "{two(b, n->op, x.least, y.least), two(b, n->op, x.most, y.most)};\n    default", "test_formula_bound"),
    ("gen/formula/formula_bound.c", "if (first >= 0 && last < size)", "if (first >= 0 && last <= size)",
     "test_formula_bound test_masks"),
    ("gen/formula/formula_range.c", "b.least > 0 && a.least >= 0 && a.most < b.least", "b.least > 0 && a.least >= 0 && a.most <= b.least",
     "test_formula_range"),
    ("gen/formula/formula_range.c", "out->least = tree_shift(a.least, a.least < 0 ? few : many, false);",
     "out->least = tree_shift(a.least, many, false);", "test_formula_range"),
    ("gen/template/template_choice.c", "return !condition || !expr_eval(", "return true || !expr_eval(", "test_template"),
    ("gen/template/template_choice.c", "more &= page->reader->diag->errors == errors", "more &= true", "test_template"),
    ("gen/template/template_choice.c", 'quoted ^= s.text[i] == \'"\';', "quoted = false;", "test_template"),
    ("gen/template/template_read.c", "(!page->behind || page->behind != page->number - 1)", "!page->behind", "test_template"),
    ("gen/template/template_read.c", "page->behind = last ? 0 : page->number;", "page->behind = page->number;", "test_template"),
    ("gen/spec/spec_test.c", "if (shape->kv_heads != 0 && shape->heads % shape->kv_heads != 0)", "if (0)", "test_spec"),
    ("gen/spec/spec_test.c", "if (list->children > SPEC_SHAPES) {", "if (list->children > SPEC_SHAPES + 1) {", "test_spec"),
    ("gen/yaml/yaml_reader.c", "old->size == key->size && memcmp", "memcmp", "test_spec"),
    ("gen/variant/space.c", "count += good && (id != KNOB_target || space->targets >> value[count] & 1);", "count += good;",
     "test_space"),
    # --- model, tune --------------------------------------------------------------------------------------------------
    ("model/model.c", "t->seconds = fmax(t->compute_seconds, t->memory_seconds) +", "t->seconds = t->compute_seconds +",
     "test_model"),
    ("model/model.c", "work->launches * gpu->launch", "0 * gpu->launch", "test_model"),
    ("tune/stage.c", "row->query - shape->len_q + 1", "row->query", "test_stage test_tuner"),
    ("tune/stage.c", "row->head = at / shape->len_q % shape->heads;", "row->head = 0;", "test_stage test_tuner"),
    ("tune/stage.c", "row->batch = at / shape->len_q / shape->heads;", "row->batch = 0;", "test_stage test_tuner"),
    ("tune/contest.c", "return a->survived != b->survived ? a->survived > b->survived : contest_time(a) < contest_time(b);",
     "return contest_time(a) < contest_time(b);", "test_contest"),
    ("tune/journal.c", "if (torn_is_strange && lines.rest.size > 0)", "if (lines.rest.size > 0)", "test_journal"),
    ("tune/journal.c", "if (journal->torn > 0 && ftruncate(journal->file, lines.whole) != 0)", "if (0)", "test_journal"),
    ("tune/journal.c", "good = memcmp(text_string(&lines.rest), begin, size) == 0;", "good = true;", "test_journal"),
    ("tune/field.c", "(double)draw[*count - 1].seconds > WRONG_BY * best", "0", "test_field"),
    ("tune/field.c", "cell->usual = cell->candidates > before ? before : -1;", "cell->usual = before;",
     "test_field test_tuner"),
    ("tune/winners.c", "<= EVEN * contest_time", "<= contest_time", "test_winners"),
    ("tune/winners.c", "if (cell->setting != setting)", "if (0)", "test_winners"),
    # --- cli ----------------------------------------------------------------------------------------------------------
    ("cli/build.c", "return atoi(strchr(arch->name, '_') + 1) >= atoi", "return atoi(strchr(arch->name, '_') + 1) > atoi",
     "test_cli"),
    ("check/npy.c", "if (there != bytes) {", "if (there < bytes) {", "test_npy"),
    ("check/npy.c", "if (npy->dims == NPY_DIMS)", "if (npy->dims > NPY_DIMS)", "test_npy"),
    ("check/npy.c", "if (!field || seen & field)", "if (!field)", "test_npy"),
    ("cli/shard.c", "return *end || value > SHARDS ? -1", "return *end ? -1", "test_options test_tune"),
    ("text/json.c", "if ((at[k] & 0xC0) != 0x80)", "if (0)", "test_json"),
    ("cli/duration.c", "*seconds > 0 &&", "", "test_options test_tune"),
    ("cli/tune_compare.c", "sum.least = fmin(sum.least, ratio);", "sum.least = ratio;", "test_tune_compare"),
    # --- kernels --------------------------------------------------------------------------------------------------------
    ("templates/work/run.cuh", "tile.first = tile.end + tile.cost;", "tile.first = tile.end;", "test_runs"),
    ("templates/work/runs_of_lengths.cuh", "index * of_tile + plan.cost", "index * of_tile", "test_runs"),
    ("templates/walk/keys_of_warp.cuh", "warp & warps_of(run) - 1", "warp & WARPS - 1", "test_runs"),
    ("templates/store/parts_of_workers.cuh", "border[0] = make_int4(0, 0, 0, 0);", "border[0];", "test_runs"),
    ("templates/store/parts_of_workers.cuh", "parts.first != worker - 1", "false", "test_runs"),
    ("templates/store/parts_of_workers.cuh", "2 * parts.count + parts.begins_before", "2 * parts.count", "test_runs"),
    ("templates/store/combine_borders_launch.cuh", "index < parts.count && ", "", "test_runs"),
    ("templates/walk/ascending_builtin.cuh", "key0 + BLOCK_N > keys.seen_by_all;", "key0 + BLOCK_N > keys.seen_by_all + 1;",
     "test_flash_tiled"),
    ("templates/load/copy_rows.cuh", "return aligned && (batch_stride | head_stride | row_stride | columns) % 4 == 0;",
     "return (batch_stride | head_stride | row_stride | columns) % 4 == 0;", "test_flash_tiled"),
    ("templates/load/copy_rows.cuh", "(batch_stride | head_stride | row_stride | columns) % 4",
     "(head_stride | row_stride | columns) % 4", "test_flash_tiled"),
    ("templates/load/copy_rows.cuh", "(batch_stride | head_stride | row_stride | columns) % 4",
     "(batch_stride | row_stride | columns) % 4", "test_flash_tiled"),
    ("templates/walk/bitmap_launch.cuh", "min(key0 + BLOCK_N, keys.end) - 1;", "min(key0 + BLOCK_N, keys.end) - 2;",
     "test_masks"),
    ("templates/fragment/score_tanh.cuh", "SMALL = 0.31f", "SMALL = 0.36f", "test_large_scores"),
    ("templates/fragment/score_tanh.cuh", "MEDIUM = 0.95f", "MEDIUM = 1.1f", "test_large_scores"),
    ("templates/fragment/simt_softmax.cuh", "__fsub_rn(s[i][j], shift) * LOG2_E", "s[i][j] * LOG2_E - shift * LOG2_E",
     "test_large_scores"),
    ("templates/fragment/softmax_rows.cuh", "* c > 4096)", "* c > 1e30f)", "test_large_scores"),
    ("templates/fragment/softmax_exponents.cuh", "? -top[r]", "? (from[r] - rows.max[r]) * LOG2_E", "test_large_scores"),
    ("templates/fragment/sinks.cuh", "    rows.far = is_far(rows, c); //$ if not folded\n", "", "test_large_scores"),
    ("templates/backward/ragged.cuh", "p.forward.first_kv * all.dk_row_stride", "first_q * all.dk_row_stride",
     "test_backward_sequences"),
    ("templates/backward/ragged.cuh", "first_q * all.dq_row_stride", "0 * all.dq_row_stride",
     "test_backward_sequences"),
    ("templates/backward/own_sequence.cuh", "p.len_q = shared.sequence.len_q;", "", "test_backward_sequences"),
    ("templates/backward/own_sequence.cuh", "p.len_kv = shared.sequence.len_kv;", "", "test_backward_sequences"),
    ("templates/backward/map_rows.cuh", "return p.first_q + query;", "return query;", "test_backward_sequences"),
    ("templates/backward/map_rows.cuh", "return p.first_kv + key;", "return key;", "test_backward_sequences"),
    ("templates/backward/statistics_packed.cuh", "(p.total_q / ROWS_PADDED + p.batch) * ROWS_PADDED", "p.total_q / ROWS_PADDED * ROWS_PADDED",
     "test_backward_sequences"),
    ("templates/backward/statistics_packed.cuh", "(p.first_q / ROWS_PADDED + batch) * ROWS_PADDED", "p.first_q / ROWS_PADDED * ROWS_PADDED",
     "test_backward_sequences"),
    ("templates/backward/dk_dv_dq_launch.cuh", "(warp.part ^ other) * WARP_QUERIES", "warp.part * WARP_QUERIES", "test_backward_mma"),
    ("templates/backward/shared_products.cuh", "STRIDE == 1 ? STEPS : 1", "1", "test_backward_mma"),
    ("templates/backward/add_to_dq.cuh", "(query % 64 + 16 * t) * 2", "query % 64 * 2", "test_backward_mma"),
    ("templates/backward/weigh_step.cuh", "d_score[t][8 * j + i] = seen ? d_score[t][8 * j + i] : 0;", "", "test_backward_mma"),
    ("templates/backward/row_statistics_launch.cuh", "static_cast<unsigned>(from[2 * i + 1]) << 16", "0", "test_backward_mma"),
    ("templates/backward/repeat_rows.cuh", "static_cast<unsigned>(row(i)[column + 1]) << 16", "0",
     "test_backward_nonfinite"),
    ("templates/backward/find_tiles.cuh", "more = more && find_queries(", "more = more && false && find_queries(", "test_backward_tiles"),
    ("templates/backward/find_tiles.cuh", "more = item.key0 >= 0;", "more = false;", "test_backward_tiles"),
    ("templates/backward/order_of_tiles.cuh", "heads - last + (n - before) % last", "(n - before) % last", "test_backward_tiles"),
    ("templates/backward/own_elements.cuh", " && count_of(of) == pairs", "", "test_backward_elements"),
    ("templates/backward/take_batches.cuh", "together ? batch * all.kv_heads + head : ", "", "test_backward_elements"),
    ("templates/backward/add_d_params.cuh", "sets && item.kv_index < params.forward.kv_heads", "sets", "test_backward_elements"),
    ("templates/backward/set_elements.cuh", "WHOLE || (query + n < queries && 32 * i < keys)", "true", "test_backward_elements"),
    ("templates/backward/take_batches.cuh", "part_of_heads(all, all, kv_index, tile, part, parts)",
     "part_of_heads(all, all, kv_index, tile, 0, parts)", "test_backward_async"),
    ("templates/backward/dq_columns.cuh", "CONSUMERS * DQ_COLUMNS == HEAD_DIM", "HEAD_DIM % DQ_COLUMNS == 0", "test_backward_async"),
    ("templates/backward/draw_queries.cuh", "(drawer + ring.count) % DRAWERS", "drawer + ring.count % 2", "test_backward_nonfinite"),
    ("templates/backward/draw_queries.cuh", "numbers.y, at + 2, at + 6", "numbers.y, at + 6, at + 2", "test_backward_nonfinite"),
    ("templates/backward/draw_queries.cuh", "32 * queries + lane % 4 * 2", "lane % 4 * 2", "test_backward_nonfinite"),
    ("templates/backward/draw_keys.cuh", "query0 + 16 * warp + lane / 4", "query0 + lane / 4", "test_backward_nonfinite"),
    ("templates/backward/draw_keys.cuh", "numbers.w, e + 12, e + 14", "numbers.w, e + 14, e + 12", "test_backward_nonfinite"),
    ("templates/backward/weigh_keys.cuh", "kept >> at & 2", "kept >> at & 1", "test_backward_nonfinite"),
    ("templates/fragment/repeat_16bit.cuh", "pair_of(of[2][pair], of[3][pair], i % 2)",
     "pair_of(of[3][pair], of[2][pair], i % 2)", "test_flash_async"),
    ("templates/work/queue_of_sequences.cuh", "workers() + atomicAdd(", "1 + workers() + atomicAdd(", "test_sequences"),
    ("templates/work/queue_of_sequences.cuh", "queue.first += tiles * tile_heads(p);", "queue.first += tiles;",
     "test_sequences"),
    ("templates/pipeline/q_tiles_overlapped.cuh", "Unit unit = {own, ", "Unit unit = {c.p, ", "test_sequences"),
    ("templates/fragment/repeat_16bit.cuh", "pair &= ~not_finite(pair);", ";", "test_flash_async"),
    ("templates/fragment/repeat_pass.cuh", "+ c * WIDTH + i % WIDTH", "+ i % WIDTH", "test_flash_async"),
    ("templates/fragment/values_want_care.cuh", "first = __reduce_min_sync", "first = __reduce_max_sync", "test_flash_async"),
    ("templates/store/repeated_rows.cuh", "passes >> pass & 1", "passes & 1", "test_flash_async"),
    ("templates/store/combine.cuh", "max = top, sum *= keep;", "max = top;", "test_splits"),
    ("templates/backward/repeat_rows.cuh", "all &= sum[i] != sum[i] || !(nonfinite >> i & 1);", ";", "test_backward_nonfinite"),
    ("templates/backward/repeat_rows.cuh", "column / 64 == i ? nonfinite.words[i] : found", "nonfinite.words[i]", "test_backward_nonfinite"),
    ("templates/backward/produce_queries.cuh", "step.late_sums = sums;", "step.late_sums = max(sums - 1, 0);", "test_backward_async"),
    ("templates/backward/produce_queries.cuh", "more = !empty && has_queries(p, walk);", "more = !empty;", "test_backward_async"),
    ("templates/backward/other_tiles_builtin.cuh", "|| walk.left > 1) && walk.steps > 0", "&& walk.steps > 0)", "test_backward_async"),
    ("templates/backward/store_d_s.cuh", "lane % 16 / 8 ^ lane % 8", "lane % 16 / 8", "test_backward_async"),
    ("templates/backward/step_statistics.cuh", "held[(4 * j + i) / 8]", "held[0]", "test_backward_async"),
    ("templates/backward/step_statistics.cuh", "pairs[2 * j + 1].x", "pairs[2 * j].x", "test_backward_async"),
    ("templates/backward/products_within_step.cuh", "if (c.last) release(&c.shared.values_empty);", "release(&c.shared.values_empty);",
     "test_backward_async"),
    ("templates/backward/add_dq.cuh", " + consumer * (DQ_COLUMNS * 64)", "", "test_backward_async"),
    ("templates/backward/add_dq.cuh", "STEP_M / CONSUMERS * consumer", "0 * STEP_M / CONSUMERS * consumer", "test_backward_async"),
    ("templates/backward/add_dq.cuh", "await_count(added, part.before);", "", "test_backward_async"),
    ("templates/backward/role_of_dq.cuh", "item().key0 / BLOCK_N}", "0}", "test_backward_async"),
    ("templates/backward/items.cuh", "static_cast<int>(blockIdx.x / 2)", "static_cast<int>(blockIdx.x)", "test_backward_async"),
    ("templates/backward/items.cuh", "static_cast<int>(gridDim.x / 2)", "static_cast<int>(gridDim.x)", "test_backward_async"),
    ("templates/backward/dq_in_cluster.cuh", "add<true>(shared.pairs_other,", "add<true>(shared.pairs,", "test_backward_async"),
    ("templates/backward/order_of_tiles.cuh", "min(most, heads - first)", "most", "test_backward_async"),
    ("templates/backward/dq_columns.cuh", "i < DQ_COLUMNS / 8", "i < DQ_COLUMNS / 8 - 1", "test_backward_async"),
    ("templates/backward/parts.cuh", "part < parts; part++", "part < parts - 1; part++", "test_backward_async"),
    ("templates/backward/panel_sums.cuh", "VECTORS * (DV_COUNT + i)", "VECTORS * i", "test_backward_async"),
    ("templates/backward/store_panels.cuh", "lane / 16 * 8 + lane % 8", "lane % 16", "test_backward_async"),
    ("templates/backward/store_panels.cuh", "min(row, rows - 1) * stride + column", "min(row, rows - 1) * stride", "test_backward_nonfinite"),
    ("templates/backward/role_of_gradients.cuh", "MASKED && low == 0 ? 0 : first", "first", "test_backward_nonfinite"),
    ("templates/backward/take_shares.cuh", " + (first_share * shares.steps < begin)", "", "test_backward_async"),
    ("templates/backward/items.cuh", "min(item.heads, group - first)", "item.heads", "test_backward_async"),
    ("templates/backward/items.cuh", "kv_index * group + first, ", "kv_index * group, ", "test_backward_async"),
    ("templates/backward/take_parts.cuh", "at.head - head * parts", "0", "test_backward_async"),
    ("templates/backward/take_parts.cuh", "if (part == 0)", "if (true)", "test_backward_async"),
    ("templates/backward/counters.cuh", "p.heads > p.kv_heads ? key_tile_count(p) : 0", "0", "test_backward_async"),
    ("templates/backward/parts.cuh", "item.heads > 0 ? item.sums + part : ", "", "test_backward_async"),
    ("templates/backward/order_of_tiles.cuh", "heads - last + (n - before) % last", "(n - before) % last", "test_backward_async"),
    ("templates/backward/repeat_rows.cuh", "s[7] = kept ? pair.weight : 0,", "s[7] = pair.weight,", "test_backward_nonfinite"),
    ("templates/backward/repeat_keys.cuh", "factor_of_dv = p.dropout_factor;", "factor_of_dv = 1;",
     "test_backward_nonfinite"),
    ("templates/backward/repeat_rows.cuh", "!(fabsf(all) < INFINITY)", "false", "test_backward_nonfinite"),
    ("templates/backward/scores_by_pairs.cuh", "const bool both = first + 8 < DIM;", "const bool both = true;",
     "test_backward_nonfinite"),
    ("templates/backward/scores_by_chunks.cuh", "DIM % 32 == 0 || column < DIM", "true", "test_backward_nonfinite"),
    ("templates/backward/scores_by_chunks.cuh", "second_a[4] = {a0.z", "second_a[4] = {a0.x", "test_backward_nonfinite"),
    ("templates/backward/clear_scored.cuh", "score != score", "false", "test_backward_nonfinite"),
    ("templates/fragment/nan.cuh", "0x007f007f", "0x00800080", "test_backward_nonfinite"),
    ("templates/fragment/nan.cuh", "0x03ff03ff", "0x04000400", "test_backward_nonfinite"),
    ("templates/backward/clear_scored.cuh", "panel < PANELS_OF", "panel < 1", "test_backward_nonfinite"),
    ("templates/backward/clear_loaded.cuh", "tile.index != nan.index", "false", "test_backward_nonfinite"),
    ("templates/backward/clear_loaded.cuh", "nan.q >> shift & STEP", "0 & STEP", "test_backward_nonfinite"),
    ("templates/backward/keys_by_consumer.cuh", "warp_index() == 0 && some_nan", "false", "test_backward_nonfinite"),
    ("templates/backward/keys_by_role.cuh", "warp_index() == 0 && some_nan", "false", "test_backward_nonfinite"),
    ("templates/backward/row_statistics_launch.cuh", "lse != lse) ? NAN_IN_LSE", "false) ? NAN_IN_LSE", "test_backward_nonfinite"),
    ("templates/backward/consume_queries.cuh", "0, lse2.sum()", "0, 0.0f", "test_backward_nonfinite"),
    ("templates/backward/products_within_step.cuh", "0, c.dots.sum()", "0, 0.0f", "test_backward_nonfinite"),
    ("templates/backward/row_statistics_launch.cuh", "&& nan != 0", "&& false", "test_backward_nonfinite"),
    ("templates/backward/keys_by_consumer.cuh", "barrier_init(&shared.nan_full, 1);", "", "test_backward_nonfinite"),
    ("templates/backward/keys_by_role.cuh", "barrier_init(&shared.nan_full, 1);", "", "test_backward_nonfinite"),
    ("templates/backward/keys_by_cluster.cuh", "warp_index() == 0 && some_nan", "false", "test_backward_nonfinite"),
    ("templates/backward/keys_by_cluster.cuh", "barrier_init(&shared.nan_keys_full, 1);", "", "test_backward_nonfinite"),
    ("templates/backward/keys_by_cluster.cuh", "barrier_init(&shared.nan_q_full[stage], 1);", "", "test_backward_nonfinite"),
    ("templates/backward/keys_by_cluster.cuh", "barrier_init(&shared.nan_d_o_full[stage], 1);", "", "test_backward_nonfinite"),
    ("templates/backward/produce_in_cluster.cuh", "barrier_arrive(nan_full);", ";", "test_backward_nonfinite"),
    ("templates/backward/gradients_in_cluster.cuh", "MASKED && low == 0 ? 0 : first", "first", "test_backward_nonfinite"),
    ("templates/backward/round_dq_launch.cuh", "if (again) restore_nan(", "if (false) restore_nan(", "test_backward_nonfinite"),
    ("templates/backward/dq_unit_launch.cuh", "if (nonfinite)", "if (false)", "test_backward_nonfinite"),
    ("templates/backward/restore_nan.cuh", "if (step + STEP_M > p.len_q) key0 = 0;", "", "test_backward_nonfinite"),
    ("templates/backward/restore_nan.cuh", "s[i] != 0", "true", "test_backward_nonfinite"),
    ("templates/backward/restore_nan.cuh", "if (isnan(to_float(d_o[c])))", "", "test_backward_nonfinite"),
    ("templates/backward/row_statistics_launch.cuh", "__ballot_sync(0xffffffffu, nan != 0) >>", "0u >>", "test_backward_nonfinite"),
    ("templates/backward/shares_full.cuh", "parts * of_part - of_item", "0", "test_backward_async"),
    ("templates/backward/repeat_rows.cuh", "b[half] = pair & ~not_finite(pair);", "b[half] = pair;",
     "test_backward_nonfinite"),
    ("templates/backward/repeat_rows.cuh", "(odd >> 16 * e & 1) && weight[r] != 0", "odd >> 16 * e & 1",
     "test_backward_nonfinite"),
    ("templates/backward/repeat_keys.cuh", "if (add_finite(sum, s, d_o, query0))",
     "if (add_finite(sum, s, d_o, query0) && false)", "test_backward_nonfinite"),
    ("templates/backward/repeat_keys.cuh", "index < (kv_index + 1) * group;", "index < kv_index * group + 1;",
     "test_backward_nonfinite"),
    ("templates/backward/repeat_keys.cuh", "queries_in_memory(p, index).from(column)", "queries_in_memory(p, index)",
     "test_backward_nonfinite"),
    ("templates/fragment/sums_in_range.cuh", "rows.max[r] += log2_approx(top[r]) * reciprocal_approx(c);", "",
     "test_flash_async"),
    ("templates/fragment/sums_in_range.cuh", "        sum[r] *= rows.keep[r];\n", "", "test_flash_async"),
    ("templates/pipeline/tiles_from_sum.cuh", "most <= USUAL_SUM", "true", "test_flash_async"),
    ("templates/pipeline/tiles_from_sum.cuh", "        rescale(units[r].o, units[r].rows);\n", "", "test_flash_async"),
    ("templates/pipeline/tiles_from_sum.cuh", "repeat_scores<0, SPLIT_N>(units, q, k);", "", "test_flash_async"),
    ("templates/pipeline/tiles_from_sum.cuh", "most * units[0].c <= 4096", "most < INFINITY", "test_large_scores"),
    ("templates/work/heads_packed.cuh", "heads_of_group(p) <= 64 ? heads_of_group(p) : 1", "heads_of_group(p)", "test_flash_mma"),
    ("runtime/choose_sizes.c", "if (2 * cover(shape->len_q, packed_queries) >", "if (cover(shape->len_q, packed_queries) >", "test_choose"),
    ("runtime/choose_gradients.c", "work->steps < 5)", "work->steps < 4)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->steps < 5)", "work->steps < 6)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "    if (work->steps < 10)", "    if (work->steps < 9)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "9 * work->rounds", "6 * work->rounds", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "item_steps < 24", "item_steps < 32", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "item_steps < 165", "item_steps < 160", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "item_steps < 165", "item_steps < 200", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->steps < 32 ||", "", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->items_per_sm < 2 && ", "", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "return work->steps < 16;", "return work->steps < 15;", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "return work->steps < 16;", "return work->steps < 17;", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal || work->items_per_sm < 1)", "causal)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal || work->items_per_sm < 1)", "work->items_per_sm < 1)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->items_per_sm < 1 && leaves", "leaves", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->group > 1 ? suits_three_for_shared", "false ? suits_three_for_shared", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->steps < 10 && rounding", "work->steps < 18 && rounding", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "rounding > 1.1", "rounding > 0.9", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "rounding > 1 &&", "rounding > 0.9 &&", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->steps <= 16 && rounding", "work->steps <= 20 && rounding", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->items_per_sm < 3 &&", "work->items_per_sm < 5 &&", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "MOST_TILES = 2", "MOST_TILES = 3", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "MOST_TILES_OF_LONG_ROWS = 5", "MOST_TILES_OF_LONG_ROWS = 4", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "MOST_TILES_OF_LONG_ROWS = 5", "MOST_TILES_OF_LONG_ROWS = 6", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "LONG_ROWS && work->items_per_sm >= 3.5", "LONG_ROWS && work->items_per_sm >= 3.4", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "3.5 * tiles", "3.4 * tiles", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", " || found->head_dim_v > 96;", ";", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "is_in_clusters(found)) && found->mask == mask_none &&", "is_in_clusters(found)) &&", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 3.5 : 1.25", "causal ? 3 : 1.25", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 3.5 : 1.25", "causal ? 3.5 : 0.5", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 64 : 16", "causal ? 64 : 15", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 64 : 16", "causal ? 63 : 16", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->queries <= 512 ||", "", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 3.5 : 2.5", "? 3.5 : 2", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 3.5 : 2.5", "? 3 : 2.5", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 0.75 : 0.25", "causal ? 0.8 : 0.25", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "causal ? 0.75 : 0.25", "causal ? 0.75 : 0.5", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->group > 1 ? 1.5 : 1.2", "1.2", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 1.5 : 1.2", "? 1.5 : 1.25", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 1.5 : 1.2", "? 1.5 : 1.15", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "3 * items_per_cluster <= 2", "3 * items_per_cluster < 2", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "3 * items_per_cluster <= 2", "4 * items_per_cluster <= 3", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->steps < 32 && items_per_cluster", "items_per_cluster", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 4 : 1.5", "? 1.5 : 1.5", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "? 4 : 1.5", "? 4 : 1.2", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->group * work->steps <= 16", "work->group * work->steps < 16", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "items_per_cluster <= 2)", "items_per_cluster <= 3)", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "return work->parts_per_sm < (in_turn", "return work->items_per_sm < (in_turn", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "(in_turn ? 1.6 : 1.25)", "1.25", GRADIENT_CHOICE),
    ("templates/backward/round_dq_launch.cuh", " || tile0 < first_query(p, 0)", "", "test_backward_async"),
    ("templates/backward/round_dq_launch.cuh", "p.len_kv == 0 || ", "", "test_backward_async"),
    ("templates/backward/add_or_store.cuh", "if (first)", "if (!first)", "test_backward_async"),
    ("templates/backward/add_dq.cuh", "    if (first)", "    if (!first)", "test_backward_async"),
    ("runtime/choose_gradients.c", "work->items_per_sm <= 0.5", "work->items_per_sm <= 1", GRADIENT_CHOICE),
    ("runtime/choose_gradients.c", "work->queries <= 1024", "work->queries <= 5000", GRADIENT_CHOICE),
    ("runtime/host/counters.c", "launch->looked == launch->working", "true", "test_hopper"),
    ("runtime/host/counters.c", "queue_wake(&cluster->counting);", "", "test_hopper"),
    ("templates/backward/repeat_queries.cuh", "k.from(column)", "k", "test_backward_nonfinite"),
    ("templates/backward/repeat_queries.cuh", "index / (p.heads / p.kv_heads)", "index", "test_backward_nonfinite"),
    # --- the oracle and its tolerance ---------------------------------------------------------------------------------
    ("check/score_error.c", "UNIT = 0x1p-24", "UNIT = 0x1p-17", "test_tolerance test_masks"),
    ("check/oracle.c", "= p->from.batch + b;", "= b;", "test_oracle test_stage"),
    ("check/oracle.c", "= p->from.head + h;", "= h;", "test_oracle test_stage"),
    ("check/oracle.c", "= p->from.kv_head + h", "= h", "test_oracle test_stage"),
    ("check/oracle.c", "return p->from.query + query", "return query", "test_oracle test_stage"),
]


def fail(message):
    print(f"mutate: {message}", file=sys.stderr)
    sys.exit(2)


def title(mutant):
    file, text, instead, _ = mutant
    return f"{file}: {' '.join(text.split())} -> {' '.join(instead.split()) or '(nothing)'}"


def mutated(folder, mutant):
    file, text, instead, _ = mutant
    whole = (folder / file).read_text()
    if whole.count(text) != 1:
        fail(f"{file}: this stands there {whole.count(text)} times, expected once; correct the table:\n{text}")
    return whole.replace(text, instead)


def copy_tree(to):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def build(folder, tests):
    """Builds the programs of tests. Returns the end of the output if the build fails, else an empty text."""
    targets = sorted({test.partition("/")[0] for test in tests})
    done = subprocess.run(["cmake", "--build", "build", "--target", *targets], cwd=folder, capture_output=True, text=True)
    return done.stdout[-3000:] if done.returncode else ""


def passes(folder, test):
    try:
        program, _, pattern = test.partition("/")
        command = [folder / "build/tests" / program, "--fail-fast", *(["--filter", pattern] if pattern else [])]
        done = subprocess.run(command, cwd=folder, timeout=LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={**os.environ, "ATTILE_SHARD": "all"})  # helper_part.h
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def catcher(folder, mutant):
    """Returns the first test program that catches the mutant, or None."""
    path, tests = folder / mutant[0], mutant[3].split()
    intact = path.read_text()
    path.write_text(mutated(folder, mutant))
    try:
        words = build(folder, tests)
        if words:
            fail(f"does not compile: {title(mutant)}\n{words}")
        return next((test for test in tests if not passes(folder, test)), None)
    finally:
        path.write_text(intact)


def main():
    parser = argparse.ArgumentParser(description="Does a test notice when the C code is wrong?")
    parser.add_argument("--only", default="", metavar="WORD", help="mutants with this word in their file or text")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in title(mutant)]
    if not chosen:
        fail(f"no mutant has '{options.only}'")
    for mutant in chosen:
        mutated(ROOT, mutant)
        if options.list:
            print(title(mutant))
    if options.list:
        return 0
    tests = sorted({test for mutant in chosen for test in mutant[3].split()})
    survivors = []
    with tempfile.TemporaryDirectory(prefix="attile-mutate-", dir="/var/tmp") as folder:
        folder = Path(folder)
        folder.chmod(0o755)  # some tests switch to other users
        copy_tree(folder)
        subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug"], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        words = build(folder, tests)
        if words:
            fail(f"the tree does not build:\n{words}")
        for test in tests:
            if not passes(folder, test):
                fail(f"{test} fails without any change")
        for mutant in chosen:
            test = catcher(folder, mutant)
            survivors += [] if test else [mutant]
            print(f"{test or 'SURVIVED':20} {title(mutant)}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
