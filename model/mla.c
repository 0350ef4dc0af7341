/* mla: V is the first columns of K, so a round loads one tile for both products. A Q tile has heads of one query. Two
   warpgroups share a tile: each computes half of the columns of O, and every other S. */
#include "work.h"

#include <math.h>

/* Shared-memory clocks of a round: both operands of S; V for each half of O; P for the half that did not compute it. */
static double shared_clocks(const struct work *work, double s_clocks, double o_clocks) {
    const struct knobs *k = work->knobs;
    double scores = (double)k->block_m * k->block_n, p_bytes = 2 * scores;
    double v_reads = o_clocks * 64; /* bytes: 64 per clock of the tensor pipe, as flash_async reads K and V */
    return (s_clocks * (64 + 4096.0 / k->block_n) + v_reads + 2 * p_bytes) / work->gpu->shared;
}

/* In each pair of tiles, the softmax of the second overlaps with products of the first. That of the first overlaps with
   nothing: both warpgroups wait for its P, and the other one waits until it has come through shared memory. */
static double softmax_alone(const struct work *work) {
    const struct model_gpu *gpu = work->gpu;
    return (double)work->knobs->block_m * work->knobs->block_n / gpu->softmax_one + gpu->shared_latency;
}

bool work_mla(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    const struct model_gpu *gpu = work->gpu;
    struct model_terms *t = work->terms;
    if (k->block_m < 1 || k->block_n < 1 || k->head_dim < 1 || k->head_dim_v < 1)
        return false;
    double len_kv = (double)s->len_kv, kv_heads = (double)s->batch * (double)s->kv_heads;
    double group = (double)(s->heads / s->kv_heads), queries = (double)s->len_q * kv_heads;
    double q_tiles = work_cover(group, k->block_m) * queries, out = k->dtype_out == dtype_fp32 ? 4 : 2;
    double pairs = k->mask == mask_causal ? fmax(0, len_kv - ((double)s->len_q - 1) / 2) / fmax(1, len_kv) : 1;
    double kv = kv_heads * len_kv * k->head_dim * 2, tile = 2.0 * k->block_n * k->head_dim;
    t->flops = 2.0 * (k->head_dim + k->head_dim_v) * group * queries * len_kv * pairs;
    t->bytes = queries * group * (k->head_dim * 2 + k->head_dim_v * out + 4) + kv;
    double parts = 2 * fmin(gpu->multiprocessors, q_tiles * work_cover(len_kv, k->block_n));
    t->memory_bytes = t->bytes + parts * k->block_m * (k->head_dim_v + 2) * 8;

    double scores = (double)k->block_m * k->block_n, flop_clocks = 2 * scores / gpu->tensor;
    double s_clocks = k->head_dim * flop_clocks, o_clocks = k->head_dim_v * flop_clocks;
    t->tensor = s_clocks + o_clocks;
    t->special = scores / gpu->softmax_two;
    t->shared = shared_clocks(work, s_clocks, o_clocks);
    t->fill = tile / (q_tiles > kv_heads ? gpu->fill_together : gpu->fill);
    t->chain = t->tensor + softmax_alone(work) / 2;
    double units[] = {t->chain, t->special, t->shared, t->fill};
    t->round = work->busy = work_overlap(units, 4, gpu->overlap);
    t->resident = 1;
    t->blocks = gpu->multiprocessors;
    t->rounds = work_cover(q_tiles * work_cover(len_kv, k->block_n), t->blocks);
    /* A run may begin at any tile, so a block has one part of a Q tile more than its share, unless each Q tile has
       blocks of its own. A change of the Q tile waits until O has left through the buffer of Q; its first and last
       product overlap with nothing. */
    double changes = 2 * q_tiles <= t->blocks ? 0 : q_tiles / t->blocks;
    t->start = gpu->async_start + changes * (gpu->async_stop + s_clocks + softmax_alone(work) + o_clocks);
    t->useful = group / fmax(1, work_cover(group, k->block_m) * k->block_m) * pairs;
    work->launches = 1;
    work->extra_seconds = 2e-6; /* the second launch, which is short and follows closely */
    return true;
}
