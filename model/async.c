/* async: models one round of flash_async. One block runs per SM. Its warpgroups of 64 queries share the tensor pipe and
   the softmax units, and each has its own dependency chain: scores, softmax, output. */
#include "work.h"

#include <math.h>

static int up(int value, int to) { return (value + to - 1) / to * to; }

/* Shared-memory clocks of a round: operands of the products, 64 bytes a clock for each operand that is there; weights
   that pass through shared memory are written once in addition. */
static double shared_clocks(const struct work *work, double groups, double s_clocks, double o_clocks) {
    const struct knobs *k = work->knobs;
    double queries = k->q_in == q_in_q_registers ? 0 : 4096.0 / k->block_n;
    bool through = k->p_in == p_in_p_shared;
    double weights = through ? 4096.0 / k->head_dim_v : 0, written = through ? 2 * 64.0 * k->block_n : 0;
    return groups * (s_clocks * (64 + queries) + o_clocks * (64 + weights) + written) / work->gpu->shared;
}

/* Sets the Q tiles: of one head each, or of all heads that share keys; one per block, or one per cluster. */
static void cut(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    double group = k->pack_gqa == 1 ? (double)shape_packed_heads(s) : 1;
    double queries = fmax(1, floor(work->variant->derived[DERIVED_tile_rows] / group));
    work->block_m = (int)queries;
    work->block_n = k->block_n;
    work->sms = floor(work->gpu->multiprocessors / k->cluster);
    work->terms->blocks =
        work_cover((double)s->len_q, queries) * (double)s->heads / group * (double)s->batch * work->parts;
}

bool work_flash_async(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct model_gpu *gpu = work->gpu;
    const int *derived = work->variant->derived;
    struct model_terms *t = work->terms;
    if (k->block_m < 64 || k->block_n < 1 || k->head_dim < 1 || k->head_dim_v < 1 || k->cluster < 1 ||
        !work_has(work, 1u << DERIVED_consumers | 1u << DERIVED_scores_ahead | 1u << DERIVED_overlap_q_tiles |
                            1u << DERIVED_tile_rows | 1u << DERIVED_k_bytes | 1u << DERIVED_v_bytes))
        return false;
    double groups = derived[DERIVED_consumers], scores = 64.0 * k->block_n;
    double flop_clocks = 2 * scores / gpu->tensor; /* of one element of a row */
    double s_clocks = up(k->head_dim, 16) * flop_clocks, o_clocks = k->head_dim_v * flop_clocks;

    /* O is rescaled every round, or only when a maximum grows, at the cost of a vote; without a maximum it is
       cheapest. */
    double rescale = k->rescale == rescale_always ? k->head_dim_v / 2.0 : 0;
    double easier = k->rescale == rescale_from_sum ? gpu->softmax_no_maximum : 1;
    double rate = (groups < 2 ? gpu->softmax_one : groups < 3 ? gpu->softmax_two : gpu->softmax_three) * easier;
    t->tensor = groups * (s_clocks + o_clocks);
    t->special = groups * (scores / rate + rescale);
    t->shared = shared_clocks(work, groups, s_clocks, o_clocks);

    double alone = scores / (gpu->softmax_one * easier) + rescale + gpu->softmax_latency / easier;
    if (k->p_in == p_in_p_shared) /* P is written and made visible to the tensor pipe */
        alone += 2 * scores / (gpu->shared / 2) + gpu->shared_latency;
    t->chain = derived[DERIVED_scores_ahead] ? s_clocks + fmax(o_clocks, alone) : s_clocks + alone + o_clocks;
    if (k->stages < 2) /* the next tile is requested only when this one has been consumed */
        t->chain += 2 * gpu->load_latency;

    cut(work);
    double bytes = (double)derived[DERIVED_k_bytes] + derived[DERIVED_v_bytes];
    bool alike = work->shape->len_q > work->block_m; /* several tiles read the same keys */
    t->fill = bytes / k->cluster / (alike ? gpu->fill_together : gpu->fill);

    double units[] = {t->tensor, t->special, t->shared, t->chain, t->fill};
    t->round = work_overlap(units, 5, gpu->overlap) + (k->cluster - 1) * gpu->cluster_wait;
    work->busy = t->round;
    work->stays = k->scheduler == scheduler_persistent;
    work->block_start =
        gpu->async_start + s_clocks + alone + o_clocks; /* the first and the last product overlap with no other */
    t->start = !work->stays ? work->block_start : derived[DERIVED_overlap_q_tiles] ? gpu->async_turn : gpu->async_stop;
    work->extra_seconds = k->cluster > 1 ? gpu->cluster_launch : 0;
    work->heaviest_first = k->tile_order != tile_order_plain;
    work->all_heads = k->tile_order == tile_order_heaviest_first;
    if (work->usage && work->usage->spills > 0)
        t->round = work->busy *= 1.3; /* no such variant was ever worth measuring twice */
    return true;
}
