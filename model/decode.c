/* decode: models reading all keys and values once from memory for a few rows of Q each. The work of the SMs hides
   behind that, unless there are many rows. */
#include "work.h"

#include <math.h>

static double up(double value, double to) { return ceil(value / to) * to; }

/* Share of the keys that at least one query sees; *pairs = share of the (query, key) pairs that the mask keeps. */
static double seen_keys(const struct work *work, double *pairs) {
    double len_q = (double)work->shape->len_q, len_kv = (double)work->shape->len_kv, first = len_kv, end = 0, seen = 0;
    const struct model_mask *mask = work->usage ? work->usage->mask : NULL;
    *pairs = work->knobs->mask == mask_causal ? fmax(0, len_kv - (len_q - 1) / 2) / fmax(1, len_kv) : 1;
    if (!mask || mask->slices == 0 || len_kv < 1)
        return 1;
    for (int i = 0; i < mask->slices; i++) {
        first = fmin(first, mask->slice[i].first);
        end = fmax(end, mask->slice[i].end);
        seen += mask->slice[i].seen;
    }
    *pairs = seen / mask->slices / len_kv;
    return fmax(0, end - first) / len_kv;
}

bool work_decode(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    const struct model_gpu *gpu = work->gpu;
    struct model_terms *t = work->terms;
    if (k->block_m < 8 || k->block_n < 16 || k->threads < 32 || k->head_dim < 1 || k->head_dim_v < 1)
        return false;
    double len_q = (double)s->len_q, len_kv = (double)s->len_kv, kv_heads = (double)s->batch * (double)s->kv_heads;
    double rows = len_q * (double)(s->heads / s->kv_heads), q_tiles = work_cover(rows, k->block_m) * kv_heads, pairs;
    double seen = seen_keys(work, &pairs), out = k->dtype_out == dtype_fp32 ? 4 : 2;
    double columns = k->head_dim + (k->shared_kv == 1 ? 0 : k->head_dim_v); /* of K and V in memory */
    double element = knobs_quantised(k) ? 1 : 2, scales = k->kv_scale == kv_scale_token ? 8 : 0; /* bytes; per key */
    double kv = kv_heads * len_kv * seen * (columns * element + scales);
    t->flops = 2.0 * (k->head_dim + k->head_dim_v) * rows * kv_heads * len_kv * pairs;
    t->bytes = rows * kv_heads * (k->head_dim * 2 + k->head_dim_v * out + 4) + kv;
    /* Q tiles of one head run side by side, so all but the first read K and V from the L2, as far as they fit. */
    double again = fmax(0, work_cover(rows, k->block_m) - 1) * kv;
    double parts = 2 * fmin(gpu->multiprocessors, q_tiles * work_cover(len_kv, k->block_n));
    t->memory_bytes = t->bytes + again * fmax(0, 1 - gpu->l2 / fmax(1, kv / fmax(1, kv_heads))) +
                      parts * k->block_m * (k->head_dim_v + 2) * 8;

    /* A round is one tile per warp. */
    double warps = k->threads / 32.0, keys = k->block_n * warps, d = up(k->head_dim, 16), d_v = up(k->head_dim_v, 16);
    t->tensor = keys * k->block_m * 2 * (d + d_v) / gpu->mma;
    t->special = keys * k->block_m / gpu->softmax_three;
    t->shared = (d + d_v + up(columns, 16)) * keys * element / gpu->shared; /* written once; read by both products */
    double units[] = {t->tensor, t->special, t->shared};
    work->busy = work_overlap(units, 3, gpu->overlap);
    t->resident = work_resident(work, 1);
    t->blocks = gpu->multiprocessors;
    t->rounds = work_cover(q_tiles * work_cover(len_kv * seen, k->block_n), warps * t->blocks);
    t->round = work->busy + t->wait;
    t->start = 4 * gpu->load_latency; /* Q, the first tile, the merge, the parts */
    t->useful = rows / fmax(1, up(rows, k->block_m)) * pairs / fmax(1e-9, seen);
    work->launches = 1;
    work->extra_seconds = 2e-6; /* the second launch, which is short and follows closely */
    return true;
}
