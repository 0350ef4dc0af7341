/* mma: models one round of flash_mma. Co-resident blocks on an SM share the tensor pipe, shared memory and the softmax
   units. Within a warp nothing overlaps, so only other blocks can use what one block leaves idle. */
#include "work.h"

static int up(int value, int to) { return (value + to - 1) / to * to; }

bool work_flash_mma(struct work *work) {
    const struct knobs *k = work->knobs;
    const struct model_gpu *gpu = work->gpu;
    struct model_terms *t = work->terms;
    if (k->block_m < 1 || k->block_n < 1 || k->threads < 32 || k->head_dim < 1 || k->head_dim_v < 1 ||
        !work_has(work, 1u << DERIVED_blocks_at_once | 1u << DERIVED_row_tiles))
        return false;
    double pairs = (double)k->block_m * k->block_n, d = up(k->head_dim, 16), d_v = up(k->head_dim_v, 16);
    double rescale = k->rescale == rescale_always ? k->block_m * d_v / 2 : 0;

    /* Each warp reads K and V once for all its rows. It reads Q every round, unless Q is in registers. */
    bool tf32 = k->dtype == dtype_fp32;
    double bytes = tf32 ? 4 : 2, products = !tf32 ? 1 : k->precision == precision_tf32x3 ? 6 : 2; /* at half the rate */
    double warps = k->threads / 32.0, keys = k->block_n * (d + d_v) * bytes;
    double queries = k->q_in == q_in_q_registers ? 0 : k->block_m * d * bytes;
    t->tensor = pairs * 2 * (d + up(k->head_dim_v, 8)) * products / gpu->mma;
    t->special = (pairs + rescale) / gpu->softmax_three;
    t->shared = ((warps + 1) * keys + queries) / gpu->shared; /* written once */
    t->fill = keys / gpu->fill;
    double units[] = {t->tensor, t->special, t->shared, t->fill};
    work->busy = work_overlap(units, 4, gpu->overlap);
    t->wait = t->tensor + gpu->softmax_latency + (k->stages < 2 ? gpu->load_latency : 0);

    t->resident = work_resident(work, work->variant->derived[DERIVED_blocks_at_once]);
    t->round = work->busy + t->wait;
    t->start = gpu->load_latency + t->wait;
    t->blocks = work_grid(work);
    work->block_m = k->block_m;
    work->block_n = k->block_n;
    work->heaviest_first = k->tile_order != tile_order_plain;
    work->all_heads = k->tile_order == tile_order_heaviest_first;
    return true;
}
