/* cores: models kernels on the fp32 pipe. flash_tiled is modelled instruction by instruction, and calibrated. The
   earlier steps of the ladder are modelled only by their bottleneck, and only their order is meaningful. */
#include "work.h"

#include <math.h>

/* --- flash_tiled, q_outer ------------------------------------------------------------------------------------------- */

static bool work_q_outer(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct model_gpu *gpu = work->gpu;
    const int *derived = work->variant->derived;
    struct model_terms *t = work->terms;
    double lanes_n = derived[DERIVED_lanes_n], chunks = derived[DERIVED_chunks], thread_v = derived[DERIVED_thread_v];
    double warps = k->threads / 32.0, pairs = (double)k->block_m * k->block_n;

    double fma = pairs * 4 * (chunks + thread_v * lanes_n);
    double loads = warps * (chunks * (k->thread_m + k->thread_n) + k->block_n / 4.0 * (k->thread_m + 4 * thread_v));
    t->fma = fma / gpu->fma + loads * gpu->load_issue / gpu->issue + pairs * gpu->score_issue / (32 * gpu->issue);
    t->shared = loads * gpu->load_shared;
    double units[] = {t->fma, t->shared};
    work->busy = work_overlap(units, 2, gpu->core_overlap);
    t->wait = gpu->round_latency + (k->target == target_any ? gpu->copy_latency : 0);

    t->resident = work_resident(work, derived[DERIVED_blocks_at_once]);
    double excess = derived[DERIVED_accumulators] - gpu->spill_registers;
    if (excess > 0) {
        work->busy *= 1 + gpu->spill_slowdown * excess / 100;
        t->wait *= 1 + gpu->spill_slowdown * excess / 100;
    }
    t->round = work->busy + t->wait;
    t->start = t->wait;
    t->blocks = work_grid(work);
    work->block_m = k->block_m;
    work->block_n = k->block_n;
    work->heaviest_first = true;
    return true;
}

/* --- the steps before ------------------------------------------------------------------------------------------------- */

/* Fp32 clocks for `pairs` scores, one row per group of lanes: the multiply-adds, one load per number for all operands
   that the kernel does not reuse, and the softmax, which every lane repeats. */
static double row_clocks(const struct work *work, double pairs, double lanes, double passes_k) {
    const struct knobs *k = work->knobs;
    const struct model_gpu *gpu = work->gpu;
    double width = passes_k * k->head_dim + k->head_dim_v;
    return pairs * width / gpu->fma + pairs * (width + passes_k * lanes * gpu->score_issue) / (32 * gpu->issue);
}

static bool work_kv_outer(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    struct model_terms *t = work->terms;
    double lanes = work->variant->derived[DERIVED_lanes], heads = (double)s->heads * (double)s->batch;
    double q_tiles = work_cover((double)s->len_q, k->block_m), kv_tiles = work_cover((double)s->len_kv, k->block_n);
    work->block_m = k->block_m;
    work->block_n = k->block_n;
    t->fma = row_clocks(work, (double)k->block_m * k->block_n, lanes, 1);
    work->busy = t->fma;
    t->wait = work->gpu->round_latency;
    t->round = t->fma + t->wait;
    t->resident = work_resident(work, floor(work->gpu->threads / fmax(32, work->variant->block_threads)));
    /* A block processes a whole head: fewer blocks, each with the rounds of all Q tiles. */
    t->blocks = work_grid(work);
    work->busy *= q_tiles;
    t->wait *= q_tiles;
    work->extra_bytes = 2 * 4 * heads * (double)s->len_q * (k->head_dim_v + 2) * kv_tiles;
    return true;
}

bool work_flash_tiled(struct work *work) {
    const struct knobs *k = work->knobs;
    if (k->block_m < 1 || k->block_n < 1 || k->head_dim < 1 || k->head_dim_v < 1)
        return false;
    if (k->loop_order == loop_order_kv_outer)
        return work_has(work, 1u << DERIVED_lanes) && work_kv_outer(work);
    return k->thread_m > 0 && k->thread_n > 0 && k->threads >= 32 &&
           work_has(work, 1u << DERIVED_lanes_n | 1u << DERIVED_chunks | 1u << DERIVED_thread_v |
                              1u << DERIVED_accumulators | 1u << DERIVED_blocks_at_once) &&
           work_q_outer(work);
}

bool work_row_by_row(struct work *work) {
    const struct knobs *k = work->knobs;
    struct model_terms *t = work->terms;
    if (k->threads < 32 || k->head_dim < 1 || k->head_dim_v < 1 ||
        !work_has(work, 1u << DERIVED_lanes | 1u << DERIVED_rows))
        return false;
    double lanes = work->variant->derived[DERIVED_lanes], rows = work->variant->derived[DERIVED_rows];
    enum { KEYS = 32 };
    work->block_m = (int)rows;
    work->block_n = KEYS;
    t->fma = row_clocks(work, rows * KEYS, lanes, k->algorithm == algorithm_multi_pass ? 2 : 1);
    t->wait = 100.0 * KEYS; /* the dependency chain from one key to the next */
    work->busy = t->fma;
    t->round = t->fma + t->wait;
    t->start = t->wait;
    t->resident = work_resident(work, floor(work->gpu->threads / k->threads));
    t->blocks = work_grid(work);
    return true;
}

bool work_materialized(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    struct model_terms *t = work->terms;
    if (k->block_m < 1 || k->block_n < 1 || k->threads < 32 || k->head_dim < 1 || k->head_dim_v < 1)
        return false;
    const struct model_gpu *gpu = work->gpu;
    double pairs = (double)k->block_m * k->block_n, width = k->head_dim + k->head_dim_v;
    double per_thread = pairs / k->threads,
           loads = 2 * sqrt(per_thread) / per_thread; /* numbers loaded for one multiply-add */
    work->block_m = k->block_m;
    work->block_n = k->block_n;
    t->fma = pairs * width * (1 / gpu->fma + loads / (32 * gpu->issue));
    t->shared = pairs * width * loads * 4 / gpu->shared;
    double units[] = {t->fma, t->shared};
    work->busy = work_overlap(units, 2, gpu->core_overlap);
    t->wait = gpu->round_latency;
    t->round = work->busy + t->wait;
    t->resident = work_resident(work, floor(512.0 / k->threads));
    t->blocks = work_cover((double)s->len_q, k->block_m) * (double)s->heads * (double)s->batch;
    /* S is written, turned into P in place, and read: it moves through memory four times. */
    work->extra_bytes = 4 * 4.0 * (double)s->batch * (double)s->heads * (double)s->len_q * (double)s->len_kv;
    work->launches = work->variant->launches;
    return true;
}

/* --- kernels that only move memory -------------------------------------------------------------------------------------- */

static bool stream(struct work *work, double reads, double writes, double blocks, double per_block) {
    struct model_terms *t = work->terms;
    enum { BYTES_IN_FLIGHT = 16 }; /* per thread: bytes requested before it waits */
    double threads = fmax(32, work->variant->block_threads);
    t->bytes = t->memory_bytes = reads + writes;
    t->blocks = blocks;
    t->resident = work_resident(work, floor(work->gpu->threads / threads));
    t->rounds = work_cover(per_block, threads * BYTES_IN_FLIGHT);
    t->wait = work->gpu->load_latency;
    t->fma = work->busy = threads * BYTES_IN_FLIGHT / 4 * 4 / (32 * work->gpu->issue);
    t->round = t->fma + t->wait;
    t->start = 2 * work->gpu->load_latency;
    t->useful = 1;
    return blocks > 0;
}

bool work_softmax(struct work *work) {
    const struct knobs *k = work->knobs;
    double rows = (double)work->shape->rows, cols = (double)work->shape->cols;
    double in = k->dtype == dtype_fp32 ? 4 : 2, out = k->dtype_out == dtype_out_fp32 ? 4 : 2;
    double passes = k->algorithm == algorithm_three_pass ? 3 : 2;
    /* If the SM has just read a row, the next pass finds it in the caches. */
    double row_bytes = cols * in, again = row_bytes > work->gpu->l2 / work->gpu->multiprocessors ? passes : 1;
    work->terms->flops = 5 * rows * cols;
    return stream(work, rows * cols * in * again, rows * cols * out, work_grid(work), cols * (passes * in + out));
}

bool work_merge(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    double rows = (double)s->batch * (double)s->heads * (double)s->len_q, width = k->head_dim_v;
    double in = k->dtype == dtype_fp32 ? 4 : 2, out = k->dtype_out == dtype_out_fp32 ? 4 : 2;
    if (!work_has(work, 1u << DERIVED_rows))
        return false;
    double groups = work->variant->derived[DERIVED_rows];
    work->terms->flops = 2 * rows * width * (double)s->parts;
    return stream(work, rows * (double)s->parts * (width * in + 4), rows * (width * out + 4), work_grid(work),
                  groups * width * ((double)s->parts * in + out));
}

static double cached_bytes(int dtype) { return dtype == dtype_kv_fp32 ? 4 : dtype <= dtype_kv_bf16 ? 2 : 1; }

bool work_append(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    double in = k->dtype == dtype_fp32 ? 4 : 2, out = k->dtype_out == dtype_out_fp32 ? 4 : 2;
    double tokens = s->total_q > 0 ? (double)s->total_q : (double)s->batch * (double)s->len_q;
    double q = k->rope > rope_none ? tokens * (double)s->heads * k->head_dim : 0;
    double kv = tokens * (double)s->kv_heads * (k->head_dim + k->head_dim_v);
    double scales = k->kv_scale == kv_scale_token ? tokens * (double)s->kv_heads * 2 * 4 : 0;
    double warps = fmax(1, work->variant->block_threads / 32.0), bytes = (q + kv) * in;
    if (!work_has(work, 1u << DERIVED_heads_of_warp))
        return false;
    double heads = work->variant->derived[DERIVED_heads_of_warp];
    double chunks = work_cover(k->rope > rope_none ? (double)s->heads : 0, heads) +
                    2 * work_cover((double)s->kv_heads, heads),
           blocks = work_cover(tokens, warps) * chunks;
    work->terms->flops = k->rope > rope_none ? 3 * (q + kv / 2) : 0;
    return stream(work, bytes, q * out + kv * cached_bytes(k->dtype_kv) + scales, blocks, bytes / fmax(1, blocks));
}
