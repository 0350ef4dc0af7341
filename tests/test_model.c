#include "agreement.h"
#include "helper_cases.h"
#include "model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct template_set *open_set(void) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

static struct model_gpu h200(void) {
    struct model_gpu gpu;
    cr_assert(model_gpu_find("NVIDIA H200", &gpu));
    return gpu;
}

static struct variant variant_of(struct template_set *set, const char *text) {
    struct input input = {"<test>", text, strlen(text)};
    struct diag diag = {0};
    struct knobs knobs = knobs_default();
    struct variant variant;
    cr_assert(knobs_parse(&input, ~0u, &knobs, &diag), "%s", text_string(&diag.text));
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s: %s", text, variant.reason);
    return variant;
}

/* --- agreement with measurements --------------------------------------------------------------------------------------- */

/* Builds the variant from a kernel's name: the knobs that it names, and the template's defaults for later knobs. */
static bool variant_of_name(struct template_set *set, const char *name, struct variant *variant) {
    struct knobs knobs = knobs_default();
    knobs.scheduler = scheduler_per_tile; /* before there was a choice */
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct knob_info *info = &knob_table[id];
        size_t longest = 0;
        for (int word = 0; info->words && info->words[word]; word++) {
            const char *at = *info->prefix ? NULL : strstr(name, info->words[word]);
            size_t size = strlen(info->words[word]);
            if (at && (at == name || at[-1] == '_') && (at[size] == '_' || !at[size]) && size > longest) {
                knob_set(&knobs, (enum knob_id)id, word);
                longest = size;
            }
        }
        for (const char *at = name; !info->words && (at = strchr(at, '_')); at++) {
            size_t size = strlen(info->prefix);
            if (memcmp(at + 1, info->prefix, size) == 0 && at[1 + size] >= '0' && at[1 + size] <= '9')
                knob_set(&knobs, (enum knob_id)id, atoi(at + 1 + size));
        }
    }
    return variant_complete(set, &knobs, false, variant);
}

static double number_of(const char *line, const char *key) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *at = strstr(line, pattern);
    return at ? atof(at + strlen(pattern)) : 0;
}

struct sample {
    struct agreement_point point;
    char name[VARIANT_NAME];
};

static void print_cell(void *context, int cell, const struct agreement_cell *judged) {
    (void)context;
    cr_log_info("problem %d: %d variants, first choice %.3f of the best, the best in place %.1f", cell, judged->kernels,
                judged->loss, judged->rank);
}

static void expect(const struct sample *sample, int count, const char *what, double in_order, double error,
                   double loss) {
    static struct agreement_point point[512];
    struct agreement a;
    cr_assert_leq(count, 512);
    for (int i = 0; i < count; i++)
        point[i] = sample[i].point;
    agreement_find(point, count, &a, print_cell, NULL);
    cr_log_info("%s: %d of %d pairs in the measured order, time within %.1f %%, first choice %.3f of the best, best "
                "among the first 8 in %d of %d problems",
                what, a.in_order, a.pairs, 100 * a.error, a.loss, a.first_few, a.cells);
    cr_expect_geq(a.in_order, in_order * a.pairs, "%s: only %d of %d pairs", what, a.in_order, a.pairs);
    cr_expect_leq(a.error, error, "%s: %g", what, a.error);
    cr_expect_leq(a.loss, loss, "%s: %g", what, a.loss);
    cr_expect_geq(a.first_few, 0.9 * a.cells, "%s: %d", what, a.first_few);
}

static int read_samples(const char *path, struct template_set *set, struct sample *sample, int room) {
    struct text text = {0};
    struct model_gpu gpu = h200();
    struct {
        struct shape shape;
        int head_dim;
        bool causal;
    } problem[64];
    int count = 0, problems = 0;
    cr_assert(file_read(path, &text));
    for (char *line = text.bytes; line && *line && count < room;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char name[VARIANT_NAME] = "";
        char *end = strchr(line, '\n');
        struct sample *s = &sample[count];
        struct variant variant;
        struct model_terms terms;
        if (end)
            *end = '\0';
        double ms = number_of(line, "ms"), length = number_of(line, "length");
        struct shape shape = {.batch = (int64_t)number_of(line, "batch"),
                              .heads = (int64_t)number_of(line, "heads"),
                              .kv_heads = (int64_t)number_of(line, "kv_heads"),
                              .len_q = (int64_t)(length ? length : number_of(line, "len_q")),
                              .len_kv = (int64_t)(length ? length : number_of(line, "len_kv"))};
        bool read = sscanf(line, "{\"kernel\": \"%150[a-z0-9_]\"", name) == 1;
        if (end)
            *end = '\n';
        if (!read || ms <= 0 || strncmp(name, "attention", 9) != 0)
            continue;
        if (!variant_of_name(set, name, &variant))
            continue; /* measured when the template had other limits */
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms), "%s", name);
        int at = 0;
        while (at < problems && (memcmp(&problem[at].shape, &shape, sizeof shape) != 0 ||
                                 problem[at].head_dim != variant.knobs.head_dim ||
                                 problem[at].causal != (variant.knobs.mask == mask_causal)))
            at++;
        if (at == problems) {
            cr_assert_lt(problems, 64);
            problem[problems].shape = shape;
            problem[problems].head_dim = variant.knobs.head_dim;
            problem[problems++].causal = variant.knobs.mask == mask_causal;
        }
        s->point = (struct agreement_point){at, terms.seconds, ms * 1e-3};
        strcpy(s->name, name);
        cr_log_info("%-100s %6lld %8.3f ms %8.3f predicted (%.2f) %s", name, (long long)shape.len_q, ms,
                    terms.seconds * 1e3, terms.seconds * 1e3 / ms, terms.bound);
        count++;
    }
    text_free(&text);
    return count;
}

Test(model, orders_hopper_schedules_as_measured) {
    static struct sample sample[512];
    struct template_set *set = open_set();
    int count = read_samples("bench/results/flash_async.jsonl", set, sample, 512);
    cr_assert_gt(count, 50);
    /* from single launches at higher clocks: their order counts */
    expect(sample, count, "flash_async", 0.85, 0.2, 1.03);
    template_set_close(set);
}

/* docs/performance-notes.md, "flash_tiled, queries on chip": S 4096, B 4, heads 2048 / d. */
Test(model, orders_fp32_schedules_as_measured) {
    static const struct {
        int problem;
        const char *schedule;
        double tflops;
    } tries[] = {
        {64, "target=sm_80 block_m=128 block_n=64 thread_m=8 thread_n=8", 42.9},
        {64, "target=sm_80 block_m=128 block_n=64 thread_m=4 thread_n=8", 40.0},
        {64, "target=sm_80 block_m=128 block_n=128 thread_m=8 thread_n=8", 38.2},
        {64, "target=sm_80 block_m=256 block_n=64 thread_m=8 thread_n=8", 41.2},
        {64, "target=any block_m=64 block_n=64 thread_m=8 thread_n=8", 38.6},
        {64, "target=any block_m=64 block_n=64 thread_m=8 thread_n=4", 36.5},
        {64, "target=any block_m=64 block_n=64 thread_m=4 thread_n=8", 38.9},
        {80, "target=sm_80 block_m=128 block_n=64 thread_m=8 thread_n=8", 36.3},
        {80, "target=sm_80 block_m=128 block_n=64 thread_m=4 thread_n=8", 33.8},
        {96, "target=sm_80 block_m=128 block_n=64 thread_m=8 thread_n=8", 31.5},
        {96, "target=sm_80 block_m=128 block_n=64 thread_m=4 thread_n=8", 37.3},
        {96, "target=any block_m=64 block_n=32 thread_m=4 thread_n=4", 33.5},
        {96, "target=any block_m=64 block_n=64 thread_m=4 thread_n=8", 31.7},
        {128, "target=sm_80 block_m=128 block_n=64 thread_m=4 thread_n=8", 41.1},
        {128, "target=any block_m=64 block_n=32 thread_m=8 thread_n=4", 32.3},
        {128, "target=any block_m=64 block_n=32 thread_m=4 thread_n=4", 34.5},
        {128, "target=any block_m=32 block_n=64 thread_m=4 thread_n=8", 34.9},
        {192, "target=sm_80 block_m=64 block_n=32 thread_m=4 thread_n=4", 40.2},
        {192, "target=any block_m=32 block_n=32 thread_m=2 thread_n=4", 33.4},
        {192, "target=any block_m=32 block_n=32 thread_m=4 thread_n=4", 33.3},
        {192, "target=any block_m=16 block_n=32 thread_m=2 thread_n=4", 26.0},
        {256, "target=sm_80 block_m=64 block_n=32 thread_m=4 thread_n=4", 33.7},
        {256, "target=any block_m=32 block_n=16 thread_m=2 thread_n=4", 28.0},
        {256, "target=any block_m=16 block_n=32 thread_m=2 thread_n=4", 25.2},
    };
    enum { TRIES = sizeof tries / sizeof *tries };
    static struct sample sample[TRIES];
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    for (int i = 0; i < TRIES; i++) {
        char text[200];
        struct shape shape = {.batch = 4, .heads = 2048 / tries[i].problem, .len_q = 4096, .len_kv = 4096};
        snprintf(text, sizeof text, "family=attention_forward algorithm=flash_tiled head_dim=%d %s", tries[i].problem,
                 tries[i].schedule);
        struct variant variant = variant_of(set, text);
        struct model_terms terms;
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms));
        double flops = 4.0 * 4 * (double)shape.heads * 4096 * 4096 * tries[i].problem;
        sample[i].point = (struct agreement_point){tries[i].problem, terms.seconds, flops / tries[i].tflops * 1e-12};
        strcpy(sample[i].name, variant.name);
        cr_expect_float_eq(terms.flops, flops, 1);
        cr_log_info("%-100s %.1f TFLOP/s, predicted %.1f, %s", variant.name, tries[i].tflops,
                    flops / terms.seconds * 1e-12, terms.bound);
    }
    expect(sample, TRIES, "flash_tiled", 0.75, 0.08, 1.03);
    template_set_close(set);
}

Test(model, agreement_is_counted_right) {
    /* cell 7: the model has the first two the wrong way round; cell 9: right, and a tie that nobody can order */
    static const struct agreement_point point[] = {{7, 1.0, 1.2}, {7, 1.1, 1.0},   {7, 2.0, 2.0}, {9, 1.0, 1.0},
                                                   {9, 3.0, 2.0}, {9, 2.9, 2.001}, {3, 5.0, 5.0}};
    struct agreement a;
    agreement_find(point, 7, &a, NULL, NULL);
    cr_expect_eq(a.cells, 2, "a kernel alone is no competition");
    cr_expect_eq(a.pairs, 5);
    cr_expect_eq(a.in_order, 4);
    cr_expect_eq(a.first_few, 2);
    cr_expect_float_eq(a.loss, sqrt(1.2), 1e-12);
    agreement_find(point, 0, &a, NULL, NULL);
    cr_expect_eq(a.pairs, 0);
    cr_expect_float_eq(a.loss, 1, 0);
}

/* --- what must hold of any prediction --------------------------------------------------------------------------------- */

static double seconds_of(struct template_set *set, const char *text, struct shape shape) {
    struct model_gpu gpu = h200();
    struct variant variant = variant_of(set, text);
    struct model_terms terms;
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms), "%s", text);
    cr_expect(isfinite(terms.seconds) && terms.useful > 0 && terms.useful <= 1.0001 && terms.tail >= 0 &&
                  terms.tail < 1,
              "%s: useful %g, tail %g", text, terms.useful, terms.tail);
    return terms.seconds;
}

Test(model, the_ladder_goes_down) {
    struct template_set *set = open_set();
    struct shape shape = {.batch = 4, .heads = 16, .len_q = 2048, .len_kv = 2048};
    static const char *const steps[] = {"multi_pass", "flash", "flash_tiled loop_order=q_outer"};
    double before = INFINITY;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char text[160];
        snprintf(text, sizeof text, "family=attention_forward head_dim=64 algorithm=%s", steps[i]);
        double seconds = seconds_of(set, text, shape);
        cr_expect_lt(seconds, before, "%s", steps[i]);
        before = seconds;
    }
    template_set_close(set);
}

Test(model, more_work_takes_longer_and_a_causal_mask_less) {
    struct template_set *set = open_set();
    static const char *const kernels[] = {
        "dtype=bf16 head_dim=128 algorithm=flash_async target=sm_90a",
        "dtype=bf16 head_dim=40 algorithm=flash_async target=sm_90a",
        "dtype=bf16 head_dim=256 algorithm=flash_async target=sm_90a tile_order=plain",
        "head_dim=64 algorithm=flash_tiled target=sm_80",
        "head_dim=64 algorithm=flash_tiled loop_order=kv_outer",
        "head_dim=64 algorithm=flash",
        "head_dim=64 algorithm=multi_pass",
        "head_dim=64 algorithm=materialized",
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        double before = 0;
        for (int64_t length = 128; length <= 32768; length *= 2) {
            char text[200];
            struct shape shape = {.batch = 2, .heads = 8, .kv_heads = 2, .len_q = length, .len_kv = length};
            snprintf(text, sizeof text, "family=attention_forward %s", kernels[i]);
            double seconds = seconds_of(set, text, shape);
            cr_expect_gt(seconds, before, "%s at %lld", text, (long long)length);
            snprintf(text, sizeof text, "family=attention_forward mask=causal %s", kernels[i]);
            double causal = seconds_of(set, text, shape);
            if (length >= 4096) /* for shorter lengths, pairs of tiles may leave SMs idle */
                cr_expect_leq(causal, seconds, "%s at %lld", text, (long long)length);
            before = seconds;
        }
    }
    template_set_close(set);
}

/* Kernels start one after another, and each pays for its launch. */
Test(model, every_launch_takes_its_time) {
    static const struct {
        const char *problem;
        int launches;
    } cases[] = {
        {"head_dim=64 algorithm=materialized", 3},
        {"head_dim=64 algorithm=flash", 1},
        {"head_dim=64 algorithm=flash_tiled", 1},
        {"dtype=bf16 head_dim=128 algorithm=flash_async target=sm_90a", 1},
    };
    const struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 64, .len_kv = 64};
    const double slower = 1e-3;
    struct template_set *set = open_set();
    struct model_gpu gpu = h200(), slow = gpu;
    slow.launch += slower;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        struct model_terms terms, later;
        snprintf(text, sizeof text, "family=attention_forward %s", cases[i].problem);
        struct variant variant = variant_of(set, text);
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms) &&
                  model_predict(&slow, &variant, &shape, NULL, &later));
        cr_expect_float_eq(later.seconds - terms.seconds, cases[i].launches * slower, 1e-9, "%s: %g", text,
                           later.seconds - terms.seconds);
    }
    template_set_close(set);
}

Test(model, a_window_costs_what_it_shows) {
    struct template_set *set = open_set();
    struct shape shape = {.batch = 2, .heads = 16, .len_q = 16384, .len_kv = 16384};
    struct model_gpu gpu = h200();
    static const struct {
        const char *mask;
        double share; /* of all pairs */
    } masks[] = {{"none", 1},
                 {"causal", 0.5},
                 {"\"k <= q and q - k < 1024\"", 0.0605},
                 {"\"q - k < 4096 and k <= q\"", 0.219},
                 {"\"k < 100\"", 0.0061},
                 {"\"k % 2 == 0\"", 1}};
    double seconds[6];
    for (int i = 0; i < 6; i++) {
        char text[200];
        struct model_terms terms;
        snprintf(text, sizeof text, "family=attention_forward head_dim=64 algorithm=flash_tiled mask=%s",
                 masks[i].mask);
        struct variant variant = variant_of(set, text);
        cr_assert(model_predict_once(&gpu, &variant, &shape, NULL, &terms));
        seconds[i] = terms.seconds;
        double pairs = terms.flops / (4 * 64 * 32.0);
        cr_expect_float_eq(pairs / (16384.0 * 16384), masks[i].share, 0.02 * masks[i].share, "%s: %g of the pairs",
                           masks[i].mask, pairs / (16384.0 * 16384));
        cr_expect(terms.useful > 0.3 && terms.useful <= 1.0001, "%s: useful %g", masks[i].mask, terms.useful);
    }
    cr_expect_lt(seconds[2], 0.2 * seconds[1]);
    cr_expect_lt(seconds[2], seconds[3]);
    cr_expect_lt(seconds[3], seconds[1]);
    cr_expect_float_eq(seconds[5], seconds[0], 0.02 * seconds[0], "what has no closed form counts in full");
    template_set_close(set);
}

Test(model, no_prediction_beats_the_peaks) {
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    struct diag diag = {0};
    struct spec *spec = spec_from_knobs("<problem>", "family=attention_forward dtype=fp16 head_dim=128", &diag);
    struct shape shape = {.batch = 1, .heads = 16, .len_q = 16384, .len_kv = 16384};
    struct space space;
    struct variant variant;
    int known = 0;
    for (space_open(&space, spec, set, model_gpu_targets(&gpu)); space_next(&space, &variant);) {
        struct model_terms terms;
        if (!variant.feasible)
            continue;
        known++;
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms), "%s", variant.name);
        double peak = variant.knobs.algorithm == algorithm_flash_async ? gpu.tensor
                      : variant.knobs.algorithm == algorithm_flash_mma || variant.knobs.algorithm == algorithm_decode
                          ? gpu.mma
                          : 2 * 128;
        cr_expect_leq(terms.flops / terms.seconds, peak * gpu.multiprocessors * gpu.clock, "%s", variant.name);
        cr_expect_leq(terms.bytes / terms.seconds, gpu.memory, "%s", variant.name);
        cr_expect(terms.bound && *terms.bound);
    }
    cr_expect_gt(known, 1000);
    space_close(&space);
    spec_free(spec);
    template_set_close(set);
}

/* 128 heads over one latent cache are bound by products, 16 by memory: a Q tile has 64 rows, and unused ones idle. */
Test(model, latent_attention_is_bound_by_products_with_many_heads_alone) {
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    struct model_terms many, few;
    struct variant variant =
        variant_of(set, "family=attention_forward dtype=bf16 head_dim=576 head_dim_v=512 shared_kv=1 "
                        "algorithm=mla target=sm_90a");
    struct shape shape = {.batch = 128, .heads = 128, .kv_heads = 1, .len_q = 1, .len_kv = 4096};
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &many));
    shape.heads = 16;
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &few));
    double cache = 128 * 4096 * 576 * 2.0;
    cr_expect_eq(many.flops, 2.0 * (576 + 512) * 128 * 128 * 4096);
    cr_expect_eq(few.flops * 8, many.flops);
    cr_expect(many.bytes > cache && many.bytes < 1.2 * cache && few.bytes < many.bytes);
    cr_expect_eq(few.useful, 0.25 * many.useful);
    cr_expect_lt(many.flops / many.seconds, gpu.tensor * gpu.multiprocessors * gpu.clock);
    cr_expect_lt(few.bytes / few.seconds, gpu.memory);
    cr_expect_str_eq(few.bound, "memory");
    cr_expect_str_neq(many.bound, "memory");
    /* as measured on an H200: docs/benchmarks-kernels.md */
    cr_expect_float_eq(many.seconds * 1e6, 296.6, 0.07 * 296.6, "%g us", many.seconds * 1e6);
    cr_expect_float_eq(few.seconds * 1e6, 190.3, 0.07 * 190.3, "%g us", few.seconds * 1e6);
    template_set_close(set);
}

/* Few keys for many queries: reading Q and writing O takes longer than any computation. */
Test(model, what_memory_takes_is_counted) {
    static const struct shape shape = {.batch = 1, .heads = 16, .kv_heads = 16, .len_q = 65536, .len_kv = 16};
    struct template_set *set = open_set();
    struct model_gpu gpu = h200(), slow = gpu;
    struct model_terms terms, slower;
    struct variant variant =
        variant_of(set, "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async target=sm_90a");
    slow.memory /= 100;
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms) &&
              model_predict(&slow, &variant, &shape, NULL, &slower));
    cr_expect_leq(slower.bytes / slower.seconds, slow.memory);
    cr_expect_str_eq(slower.bound, "memory");
    cr_expect_gt(slower.seconds, 10 * terms.seconds, "%g and %g", slower.seconds, terms.seconds);
    template_set_close(set);
}

Test(model, empty_shapes_and_single_elements_are_no_trouble) {
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    static const char *const kernels[] = {
        "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async target=sm_90a",
        "family=attention_forward mask=causal", "family=softmax", "family=merge"};
    static const struct shape shapes[] = {
        {0},
        {.batch = 1, .heads = 1, .len_q = 1, .len_kv = 0, .rows = 1, .parts = 1},
        {.batch = 1, .heads = 1, .len_q = 5, .len_kv = 2, .rows = 1, .cols = 1, .parts = 1},
        {.batch = 1,
         .heads = 1,
         .len_q = 1ll << 40,
         .len_kv = 1ll << 40,
         .rows = 1ll << 40,
         .cols = 1ll << 40,
         .parts = 1ll << 40}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            struct variant variant = variant_of(set, kernels[i]);
            struct model_terms terms;
            model_predict(&gpu, &variant, &shapes[k], NULL, &terms);
            cr_expect(isfinite(terms.seconds) && terms.seconds >= 0, "%s, shape %d: %g", kernels[i], (int)k,
                      terms.seconds);
        }
    template_set_close(set);
}

/* The template says whether the next tile begins before this one ends. If it does not say so, nothing is predicted. */
Test(model, asks_the_variant_for_what_the_template_derived) {
    const struct shape shape = {.batch = 4, .heads = 16, .len_q = 4096, .len_kv = 4096};
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    struct model_terms terms;
    struct variant variant = variant_of(set, "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async "
                                             "scheduler=persistent target=sm_90a");
    variant.derived[DERIVED_overlap_q_tiles] = 1;
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms));
    double overlapped = terms.seconds;
    variant.derived[DERIVED_overlap_q_tiles] = 0;
    cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms));
    cr_expect_gt(terms.seconds, overlapped);
    variant.derived[DERIVED_overlap_q_tiles] = DERIVED_NONE;
    cr_expect_not(model_predict(&gpu, &variant, &shape, NULL, &terms));
    template_set_close(set);
}

Test(model, a_prediction_costs_microseconds) {
    struct template_set *set = open_set();
    struct model_gpu gpu = h200();
    struct variant variant = variant_of(set, "family=attention_forward dtype=bf16 head_dim=128 mask=causal "
                                             "algorithm=flash_async target=sm_90a");
    struct shape shape = {.batch = 2, .heads = 16, .len_q = 32768, .len_kv = 32768};
    struct model_terms terms;
    clock_t start = clock(); /* processor time, since the machine may have other work */
    for (int i = 0; i < 10000; i++)
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_log_info("10,000 predictions in %.0f ms", 1e3 * seconds);
    cr_expect_lt(seconds, 2); /* promised: half a second; the rest is for sanitizers */
    template_set_close(set);
}

/* --- device files ---------------------------------------------------------------------------------------------------- */

Test(model, every_device_file_is_complete) {
    char name[64];
    int count = 0;
    for (; model_gpu_list(count, name, sizeof name); count++) {
        struct model_gpu gpu;
        cr_expect(model_gpu_find(name, &gpu), "%s", name);
        cr_expect(model_gpu_targets(&gpu) & 1u << target_any);
    }
    cr_expect_geq(count, 1);
    struct model_gpu gpu;
    cr_expect_not(model_gpu_find("NVIDIA H2", &gpu));
    cr_expect_not(model_gpu_find("", &gpu));
}

Test(model, bad_device_files_are_refused) {
    struct text good = {0};
    cr_assert(file_read("devices/h200.yaml", &good));
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"value: 132", "value: many", "expected a number above 0"},
        {"value: 132", "value: -1", "expected a number above 0"},
        {"value: 132", "value: nan", "expected a number above 0"},
        {"value: 132,", "", "a rate has value, unit and source"},
        {"unit: Hz, source: \"measured: clock64", "unit: GHz, source: \"measured: clock64",
         "the unit of clock is 'Hz'"},
        {"multiprocessors:", "multiprocesors:", "did you mean 'multiprocessors'?"},
        {"arch: sm_90a", "arch: []", "arch takes a single value, found a list"},
        {"arch: sm_90a\n", "", "needs the keys 'name' and 'arch'"},
        {"arch: sm_90a", "arc: sm_90a", "unknown key 'arc'"},
        {"  l2: ", "#  l2: ", "the rate 'l2' is missing"},
        {"rates:", "rates: [", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(good.bytes, cases[i].from);
        cr_assert_not_null(at, "%s", cases[i].from);
        struct text bad = {0};
        text_append(&bad, good.bytes, (size_t)(at - good.bytes));
        text_print(&bad, "%s%s", cases[i].to, at + strlen(cases[i].from));
        struct input input = {"bad.yaml", bad.bytes, bad.size};
        struct diag diag = {0};
        struct model_gpu gpu;
        cr_expect_not(model_gpu_read(&input, &gpu, &diag), "%s", cases[i].to);
        cr_expect(strstr(text_string(&diag.text), "bad.yaml:") && strstr(text_string(&diag.text), cases[i].message),
                  "%s: %s", cases[i].message, text_string(&diag.text));
        diag_free(&diag);
        text_free(&bad);
    }
    text_free(&good);
}

/* Of kernels that do the same work, those on better units are faster, and five products take longer than two. */
Test(model, knows_the_backward_pass) {
    struct template_set *set = open_set();
    static const char *const schedules[] = {"algorithm=flash_async target=sm_90a", "algorithm=flash_mma target=sm_90",
                                            "algorithm=flash_mma target=sm_90 deterministic=1", /* seven products */
                                            "algorithm=flash_tiled target=sm_80", "algorithm=materialized"};
    struct model_gpu gpu = h200();
    struct shape shape = {.batch = 4, .heads = 16, .kv_heads = 16, .len_q = 4096, .len_kv = 4096};
    struct variant forward = variant_of(
        set, "family=attention_forward dtype=bf16 head_dim=128 mask=causal algorithm=flash_async target=sm_90a");
    struct model_terms terms, before;
    cr_assert(model_predict(&gpu, &forward, &shape, NULL, &before));
    double flops = before.flops;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        char text[256];
        snprintf(text, sizeof text, "family=attention_backward dtype=bf16 head_dim=128 mask=causal %s", schedules[i]);
        struct variant variant = variant_of(set, text);
        cr_assert(model_predict(&gpu, &variant, &shape, NULL, &terms), "%s", text);
        cr_expect_float_eq(terms.flops, 2.5 * flops, 1, "%s", text);
        cr_expect_gt(terms.seconds, 1.3 * before.seconds, "%s: %g s after %g s", text, terms.seconds, before.seconds);
        before = terms;
    }
    template_set_close(set);
}
