/* Which kernels are tried: the template's own schedule, the model's first choices, and random draws that are the
   same every time. */
#include "field.h"
#include "tuned.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct shape shapes[] = {{.batch = 16, .heads = 16, .kv_heads = 16, .len_q = 1024, .len_kv = 1024},
                                      {.batch = 1, .heads = 16, .kv_heads = 16, .len_q = 16384, .len_kv = 16384}};

static struct template_set *set;
static struct spec *spec;
static struct model_gpu gpu;
static struct candidates all;

static void enter(void) {
    struct diag diag = {0};
    set = template_set_open(NULL, NULL, &diag);
    spec = spec_from_knobs("<test>", "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_tiled", &diag);
    cr_assert(set && spec, "%s", text_string(&diag.text));
    cr_assert(model_gpu_find("h200", &gpu));
    cr_assert(candidates_find(&all, set, spec, &gpu, shapes, 2, NULL));
    cr_assert_gt(all.count, 100);
}

static void leave(void) {
    candidates_free(&all);
    spec_free(spec);
    template_set_close(set);
}

TestSuite(field, .init = enter, .fini = leave);

static struct tuner pick(int shape, int count, bool own) {
    static const struct tuner_options options;
    struct tuner tuner;
    tuner_open(&tuner, &options);
    cr_assert(tuner_add_cell(&tuner, "p", &shapes[shape], "s"));
    cr_assert(field_pick(set, &all, 0, shape, count, own, &tuner));
    return tuner;
}

static double predicted(const struct variant *variant, int shape) {
    struct model_terms terms;
    return model_predict(&gpu, variant, &shapes[shape], NULL, &terms) ? terms.seconds : INFINITY;
}

Test(field, has_the_templates_own_and_the_models_first) {
    for (int shape = 0; shape < 2; shape++) {
        struct tuner tuner = pick(shape, 32, true);
        double best = INFINITY, first = INFINITY;
        int count;
        const struct candidate *candidate = candidates_of(&all, 0, &count);
        for (int i = 0; i < count; i++)
            best = fmin(best, (double)candidates_seconds(&all, &candidate[i], shape));
        cr_assert_eq(tuner.cell[0].candidates, 32);
        for (int i = 0; i < 32; i++)
            first = fmin(first, predicted(&tuner.kernel[tuner.cell[0].kernel[i]].variant, shape));
        cr_expect_float_eq(first, best, 1e-6 * best);
        const struct knobs *own = &tuner.kernel[tuner.cell[0].kernel[0]].variant.knobs;
        struct knobs open = *own;
        struct variant variant;
        for (int id = 0; id < KNOB_COUNT; id++)
            if (knob_table[id].group == KNOB_GROUP_SCHEDULE && id != KNOB_algorithm && id != KNOB_loop_order)
                knob_set(&open, (enum knob_id)id, AUTO);
        cr_assert(variant_complete(set, &open, false, &variant));
        cr_expect_str_eq(variant.name, tuner.kernel[tuner.cell[0].kernel[0]].variant.name);
        tuner_close(&tuner);
    }
}

Test(field, is_the_same_every_time_and_holds_nobody_twice) {
    struct tuner first = pick(0, 40, true), second = pick(0, 40, true);
    cr_assert_eq(first.kernels, second.kernels);
    for (int i = 0; i < first.kernels; i++) {
        cr_expect_str_eq(first.kernel[i].source, second.kernel[i].source);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(first.kernel[i].source, first.kernel[k].source);
    }
    tuner_close(&first);
    tuner_close(&second);
}

Test(field, leaves_out_what_is_surely_slow) {
    struct tuner tuner = pick(1, 100000, false);
    double best = INFINITY;
    for (int i = 0; i < tuner.kernels; i++)
        best = fmin(best, predicted(&tuner.kernel[i].variant, 1));
    cr_expect_lt(tuner.kernels, all.count);
    for (int i = 0; i < tuner.kernels; i++)
        cr_expect_lt(predicted(&tuner.kernel[i].variant, 1), 3.01 * best);
    tuner_close(&tuner);
}

Test(field, can_be_of_one) {
    struct tuner own = pick(0, 1, true), best = pick(0, 1, false);
    cr_expect_eq(own.cell[0].candidates, 1);
    cr_expect_eq(best.cell[0].candidates, 1);
    tuner_close(&own);
    tuner_close(&best);
}

Test(field, says_problems_shortly_and_reads_them_back) {
    static const char *const texts[] = {
        "family=attention_forward dtype=bf16 head_dim=128",
        "family=attention_forward dtype=fp32 head_dim=192 head_dim_v=128 mask=causal",
        "family=attention_forward dtype=fp16 dtype_out=fp32 head_dim=64",
        "family=attention_forward dtype=fp16 head_dim=64 fixed_len_q=7",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct input input = {"<test>", texts[i], strlen(texts[i])};
        struct knobs knobs = knobs_default();
        struct diag diag = {0};
        struct text text = {0};
        struct variant variant;
        cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag));
        knobs.algorithm = algorithm_flash;
        cr_assert(variant_complete(set, &knobs, false, &variant), "%s", variant.reason);
        field_print_problem(&variant.knobs, &text);
        cr_expect_str_eq(text_string(&text), texts[i]);
        cr_expect_eq(field_fits(&variant.knobs, &shapes[0]), i < 3);
        text_free(&text);
    }
}

/* Some of its knobs have their own default, which the template does not repeat. */
Test(field, has_the_own_schedule_of_a_template_from_any_other) {
    struct knobs knobs = knobs_default();
    struct variant wanted, found;
    knobs.family = family_attention_forward;
    knobs.dtype = dtype_bf16;
    knobs.head_dim = 128;
    knobs.algorithm = algorithm_flash_async;
    knobs.target = target_sm_90a;
    cr_assert(variant_complete(set, &knobs, true, &wanted), "%s", wanted.reason);
    struct knobs other = wanted.knobs;
    other.block_n = 96;
    other.cluster = 2;
    other.q_in = q_in_q_registers;
    cr_assert(field_default(set, &other, &found), "%s", found.reason);
    cr_expect_str_eq(found.name, wanted.name);
}

/* It is measured to the end, so it must be one of the candidates. */
Test(field, the_templates_own_is_among_the_candidates_or_nobody) {
    static const struct tuner_options options;
    struct tuner tuner;
    struct knobs knobs = knobs_default();
    knobs.family = family_attention_forward;
    knobs.algorithm = algorithm_flash;
    tuner_open(&tuner, &options);
    cr_assert(tuner_add_cell(&tuner, "p", &shapes[0], "s"));
    cr_assert(field_add_default(set, &knobs, &tuner));
    cr_expect_eq(tuner.cell[0].usual, 0);
    for (int i = 0; i < 2; i++) { /* there already, and left out */
        cr_assert(field_add_default(set, &knobs, &tuner));
        cr_expect_eq(tuner.cell[0].candidates, 1);
        cr_expect_lt(tuner.cell[0].usual, 1);
    }
    tuner_close(&tuner);
}
