/* model: the cost of a block's round -> the time of a launch. Has the part that all kernels share: the number of
   rounds, how blocks fill the SMs and run out, the traffic of device memory, and how far the clock drops. */
#include "work.h"

#include <math.h>
#include <string.h>

static const struct {
    int algorithm;
    work_function *work;
} kernels[] = {
    {algorithm_flash_async, work_flash_async},
    {algorithm_flash_tiled, work_flash_tiled},
    {algorithm_flash_mma, work_flash_mma},
    {algorithm_decode, work_decode},
    {algorithm_mla, work_mla},
    {algorithm_flash, work_row_by_row},
    {algorithm_multi_pass, work_row_by_row},
    {algorithm_materialized, work_materialized},
    {algorithm_online, work_softmax},
    {algorithm_three_pass, work_softmax},
    {algorithm_fold, work_merge},
    {algorithm_scatter, work_append},
};

static double element_bytes(int dtype) { return dtype == dtype_fp32 ? 4 : 2; }

/* --- rounds ------------------------------------------------------------------------------------------------------ */

/* A range of keys. */
struct range {
    double first, end;
};

static struct range cut_slices(const struct work *work, const struct model_mask *mask, double begin, double end) {
    double scale = mask->slices / (double)work->shape->len_q;
    int last = (int)fmin(ceil(end * scale), mask->slices);
    struct range range = {INFINITY, 0};
    for (int i = (int)(begin * scale); i < last; i++) {
        range.first = fmin(range.first, mask->slice[i].first);
        range.end = fmax(range.end, mask->slice[i].end);
    }
    return range.first < range.end ? range : (struct range){0};
}

static const struct model_mask *mask_of(const struct work *work) {
    const struct model_mask *mask = work->usage ? work->usage->mask : NULL;
    return mask && mask->slices > 0 ? mask : NULL;
}

/* Keys that the queries [begin, end) see. Under a causal mask the last query is aligned with the last key. */
static struct range keys_of(const struct work *work, double begin, double end) {
    double len_q = (double)work->shape->len_q, len_kv = (double)work->shape->len_kv;
    if (mask_of(work))
        return cut_slices(work, mask_of(work), begin, fmin(end, len_q));
    if (work->knobs->mask != mask_causal)
        return (struct range){0, len_kv};
    double keys = fmin(end, len_q) + len_kv - len_q;
    return (struct range){0, fmax(0, fmin(keys, len_kv))};
}

struct rounds {
    double mean, least, most; /* per block */
};

/* Counts over the blocks of one head. Long sequences are sampled: the number of rounds grows evenly along them. */
static struct rounds count_rounds(const struct work *work) {
    enum { SAMPLES = 64 };
    double tiles = work_cover((double)work->shape->len_q, work->block_m);
    int samples = tiles < SAMPLES ? (int)tiles : SAMPLES;
    struct rounds rounds = {0};
    for (int i = 0; i < samples; i++) {
        double tile = floor((i + 0.5) * tiles / samples);
        struct range keys = keys_of(work, tile * work->block_m, (tile + 1) * work->block_m);
        double count = work_cover(keys.end, work->block_n) - floor(keys.first / work->block_n);
        rounds.mean += count / samples;
        rounds.most = fmax(rounds.most, count);
        rounds.least = i == 0 ? count : fmin(rounds.least, count);
    }
    return rounds;
}

/* Pairs of query and key that the mask keeps. */
static double seen_pairs(const struct work *work) {
    double len_q = (double)work->shape->len_q, len_kv = (double)work->shape->len_kv, seen = 0;
    const struct model_mask *mask = mask_of(work);
    for (int i = 0; mask && i < mask->slices; i++)
        seen += mask->slice[i].seen * len_q / mask->slices;
    if (mask)
        return seen;
    if (work->knobs->mask != mask_causal)
        return len_q * len_kv;
    double first = len_kv - len_q + 1; /* keys of the first query; may be zero or negative */
    double skipped = first < 1 ? fmin(1 - first, len_q) : 0, rows = len_q - skipped;
    return rows * (fmax(first, 1) + len_kv) / 2;
}

/* --- filling the SMs ------------------------------------------------------------------------------------------------- */

/* Clocks of one SM that runs `blocks` side by side for `rounds` rounds: their busy clocks add up, their waiting times
   do not. */
static double beside(const struct work *work, double blocks, double rounds) {
    const struct model_terms *t = work->terms;
    return blocks > 0 ? t->start + rounds * (blocks * work->busy + t->wait) : 0;
}

/* Persistent blocks: every SM gets as many items as the others, or one more. Where tiles differ, an item is a pair of a
   long and a short one, unless single tiles or their parts end sooner. */
static double deal_out(const struct work *work, struct rounds rounds) {
    struct model_terms *t = work->terms;
    double single = beside(work, 1, rounds.most), mean = beside(work, 1, rounds.mean);
    /* The longest tile comes first, so a block ends late by the amount that this tile is longer. */
    double clocks = work->block_start + (work_cover(t->blocks, work->sms) - 1) * mean + single;
    if (rounds.most > rounds.least && work->parts == 1)
        clocks = fmin(clocks, work->block_start + work_cover(t->blocks / 2, work->sms) * 2 * mean);
    t->tail = 1 - t->blocks / work->sms * mean / clocks;
    return clocks;
}

/* Clocks from the start of the first block to the end of the last one. */
static double fill_multiprocessors(const struct work *work, struct rounds rounds) {
    struct model_terms *t = work->terms;
    if (work->stays)
        return deal_out(work, rounds);
    double sms = work->sms, slots = sms * t->resident;
    double full = floor(t->blocks / slots), left = t->blocks - full * slots;
    double clocks;
    if (rounds.most > rounds.least) { /* blocks end one by one: only the remainder at the end counts */
        double share = t->blocks / slots;
        double spread = beside(work, t->resident, rounds.mean);
        double last = beside(work, t->resident, work->heaviest_first ? rounds.least : rounds.most) / 2;
        double longest = beside(work, fmin(t->resident, work_cover(t->blocks, sms)), rounds.most);
        clocks = fmax(share * spread + fmin(share, 1) * last * (slots - 1) / slots, longest);
    } else {
        clocks = full * beside(work, t->resident, rounds.mean) + beside(work, work_cover(left, sms), rounds.mean);
    }
    double even = t->blocks / slots * beside(work, t->resident, rounds.mean);
    t->tail = clocks > 0 ? fmax(0, 1 - even / clocks) : 0;
    return clocks;
}

/* --- keys in parts --------------------------------------------------------------------------------------------------- */

/* The number of parts, decided as the launch decides it. */
static double count_parts(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape) {
    struct shape sizes = *shape;
    sizes.sm_count = (int64_t)gpu->multiprocessors;
    return plan_split(&variant->splits, &sizes) ? (double)sizes.key_parts : 1;
}

/* Each part writes its rows in fp32, and a second launch reads them. */
static void split_keys(struct work *work, struct rounds *rounds) {
    const struct shape *s = work->shape;
    double rows = (double)s->batch * (double)s->heads * (double)s->len_q;
    if (work->parts == 1)
        return;
    rounds->mean /= work->parts;
    rounds->least /= work->parts;
    rounds->most /= work->parts;
    work->extra_bytes += 2 * work->parts * rows * (work->knobs->head_dim_v + 2) * 4;
    work->launches++;
}

/* --- device memory --------------------------------------------------------------------------------------------------- */

static void count_bytes(const struct work *work) {
    const struct knobs *k = work->knobs;
    const struct shape *s = work->shape;
    struct model_terms *t = work->terms;
    double heads = (double)s->batch * (double)s->heads, kv_heads = (double)s->batch * (double)s->kv_heads;
    double d = k->head_dim, dv = k->head_dim_v > 0 ? k->head_dim_v : d;
    double kv = kv_heads * (double)s->len_kv * (d + dv) * element_bytes(k->dtype);
    double q = heads * (double)s->len_q * (d * element_bytes(k->dtype) + dv * element_bytes(k->dtype_out) + 4);
    double share = work->block_m > 0 ? seen_pairs(work) / fmax(1, (double)s->len_q * (double)s->len_kv) : 1;
    double passes = work->block_m > 0 ? work_cover((double)s->len_q, work->block_m) * heads / fmax(1, kv_heads) : 1;
    /* Every Q tile reads K and V again. What does not fit the L2 comes from memory again, once for the tiles of a head
       that run side by side. */
    passes /= fmax(1, work->gpu->multiprocessors / heads);
    double missed = work->all_heads ? fmax(0, 1 - work->gpu->l2 / fmax(1, kv)) : 0;
    if (k->family == family_attention_backward) { /* dO, dQ, dK and dV in addition */
        q += q;
        kv += kv;
    }
    t->bytes = q + kv;
    t->memory_bytes = t->bytes + work->extra_bytes + fmax(0, passes - 1) * kv * share * missed;
}

/* --- putting it together --------------------------------------------------------------------------------------------- */

static void name_bound(struct model_terms *t) {
    const struct {
        double clocks;
        const char *name;
    } units[] = {{t->tensor, "tensor pipe"},   {t->special, "softmax"},   {t->fma, "fp32 and issue"},
                 {t->shared, "shared memory"}, {t->fill, "L2 to the SM"}, {t->chain, "one warpgroup's chain"},
                 {t->wait, "waiting"}};
    double most = 0;
    t->bound = "start of blocks";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].clocks > most) {
            most = units[i].clocks;
            t->bound = units[i].name;
        }
    if (most * t->rounds < t->start)
        t->bound = "start of blocks";
    if (t->memory_seconds > t->compute_seconds)
        t->bound = "memory";
    if (t->blocks < 1)
        t->bound = "launch";
}

static void add_up(struct work *work, struct rounds rounds) {
    const struct model_gpu *gpu = work->gpu;
    struct model_terms *t = work->terms;
    t->rounds = rounds.mean;
    double clocks = fill_multiprocessors(work, rounds);
    double tensor = t->tensor * rounds.mean * t->blocks / work->sms;
    t->busy = clocks > 0 ? fmin(1, tensor / clocks) : 0;
    t->clock = gpu->clock - gpu->clock_drop * fmax(0, t->busy - gpu->clock_knee) / (1 - gpu->clock_knee);
    t->compute_seconds = clocks / t->clock;
    t->memory_seconds = t->memory_bytes / gpu->memory;
    t->seconds = fmax(t->compute_seconds, t->memory_seconds) +
                 gpu->memory_exposed * fmin(t->compute_seconds, t->memory_seconds) + work->launches * gpu->launch +
                 work->extra_seconds;
}

bool model_predict(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                   const struct model_usage *usage, struct model_terms *terms) {
    struct shape full = *shape;
    if (full.kv_heads == 0)
        full.kv_heads = full.heads;
    struct work work = {.gpu = gpu,
                        .knobs = &variant->knobs,
                        .variant = variant,
                        .usage = usage,
                        .shape = &full,
                        .terms = terms,
                        .launches = 1,
                        .parts = count_parts(gpu, variant, &full),
                        .sms = gpu->multiprocessors};
    *terms = (struct model_terms){.resident = 1, .bound = ""};
    bool backward =
        variant->knobs.family == family_attention_backward; /* algorithms are named as in the forward pass */
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        work_function *find = backward ? work_backward : kernels[i].work;
        if (kernels[i].algorithm != variant->knobs.algorithm || !find(&work))
            continue;
        struct rounds rounds = {terms->rounds, terms->rounds, terms->rounds};
        if (work.block_m > 0) { /* attention with tiles */
            double width = variant->knobs.head_dim + variant->knobs.head_dim_v;
            double pairs = seen_pairs(&work), heads = (double)full.batch * (double)full.heads;
            rounds = count_rounds(&work);
            terms->flops = 2 * width * pairs * heads;
            if (backward) /* five products instead of two */
                terms->flops += 2 * (2.0 * variant->knobs.head_dim + variant->knobs.head_dim_v) * pairs * heads;
            double done = rounds.mean * work_cover((double)full.len_q, work.block_m) * work.block_m * work.block_n;
            terms->useful = done > 0 ? pairs / done : 0;
            terms->parts = work.parts;
            split_keys(&work, &rounds);
            count_bytes(&work);
        }
        add_up(&work, rounds);
        name_bound(terms);
        return terms->seconds > 0;
    }
    return false;
}

bool model_predict_once(const struct model_gpu *gpu, const struct variant *variant, const struct shape *shape,
                        const struct model_usage *usage, struct model_terms *terms) {
    struct model_usage all = usage ? *usage : (struct model_usage){0};
    struct model_mask mask;
    if (model_mask_make(&mask, &variant->knobs, shape))
        all.mask = &mask;
    return model_predict(gpu, variant, shape, &all, terms);
}
