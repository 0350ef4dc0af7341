/* backward: models the gradients. A round is one Q tile by one K/V tile, with the products of all launches: S, dP, dV,
   dK and dQ, and S and dP again where dQ has a launch of its own. */
#include "work.h"

#include <math.h>

/* S, dK and dQ are head_dim wide; dP and dV are head_dim_v wide. */
static double width_of(const struct knobs *k, double times_s) {
    return (times_s + 2) * k->head_dim + (times_s + 1) * k->head_dim_v;
}

/* One query row by 128 keys: each product loads both operands. P and dS are written once and read three times. */
static void by_definition(struct work *work, double *pairs) {
    const struct shape *s = work->shape;
    work->block_m = 1;
    work->block_n = 128;
    *pairs = 128;
    work->terms->fma = *pairs * width_of(work->knobs, 1) * (1 / work->gpu->fma + 2 / (32 * work->gpu->issue));
    work->extra_bytes = 5 * 4.0 * (double)s->batch * (double)s->heads * (double)s->len_q * (double)s->len_kv;
}

bool work_backward(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct model_gpu *gpu = work->gpu;
    struct model_terms *t = work->terms;
    const struct shape *s = work->shape;
    bool async = k->algorithm == algorithm_flash_async, tiles = k->algorithm != algorithm_materialized;
    if (k->head_dim < 1 || k->head_dim_v < 1 || (tiles && (k->block_m < 1 || k->block_n < 1)))
        return false;
    double pairs = (double)k->block_m * k->block_n;
    double times_s = work->variant->derived[DERIVED_dq_added] == 1 ? 1 : 2; /* how often S and dP are computed */
    work->block_m = k->block_m;
    work->block_n = k->block_n;
    if (!tiles)
        by_definition(work, &pairs);
    else if (k->algorithm == algorithm_flash_tiled)
        t->fma = pairs * width_of(k, times_s) / gpu->fma;
    else
        t->tensor = pairs * 2 * width_of(k, times_s) / (async ? gpu->tensor : gpu->mma);
    t->special = times_s * pairs / gpu->softmax_three;
    double rows = work->block_m + work->block_n, width = k->head_dim + k->head_dim_v;
    t->fill = times_s * rows * width * (k->dtype == dtype_fp32 ? 4 : 2) / gpu->fill;
    double units[] = {t->tensor, t->fma, t->special, t->fill};
    work->busy = work_overlap(units, 4, gpu->overlap);
    t->wait = gpu->softmax_latency + gpu->load_latency;
    int at_once = work->variant->derived[DERIVED_blocks_at_once];
    t->resident = work_resident(work, at_once != DERIVED_NONE ? at_once : async ? 1 : floor(512.0 / k->threads));
    t->round = work->busy + t->wait;
    t->start = gpu->load_latency;
    t->blocks = (double)s->batch * (double)s->heads * work_cover((double)s->len_q, work->block_m);
    work->launches = work->variant->launches;
    return true;
}
