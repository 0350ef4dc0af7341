#include "helper_template.h"
#include "variant_names.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A template that uses every kind of knob, so that names must tell all of them apart. */
static const char everything[] = "//$ default block_m = 16\n"
                                 "//$ default block_n = block_m * 2\n"
                                 "//$ default threads = 32\n"
                                 "//$ require block_m % 8 == 0\n"
                                 "//$ launch kernel grid len_q block threads shared 4 * block_m * block_n\n"
                                 "//$ if mask == causal or dtype == fp16 or dtype_out == bf16\n"
                                 "//$ end\n"
                                 "int x = HEAD_DIM + HEAD_DIM_V;\n";

static struct template_set *open_set(void) {
    static struct template_text text = {everything, sizeof everything - 1};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

Test(derive, what_was_left_out_follows_from_what_was_given) {
    struct template_set *set = open_set();
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.dtype = dtype_bf16;
    knobs.head_dim = 96;
    knobs.block_m = 24;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.knobs.dtype_out, dtype_out_bf16);
    cr_expect_eq(variant.knobs.head_dim_v, 96);
    cr_expect_eq(variant.knobs.block_m, 24);
    cr_expect_eq(variant.knobs.block_n, 48);
    cr_expect_eq(variant.knobs.threads, 32);
    cr_expect_eq(variant.knobs.target, target_any);
    cr_expect_eq(variant.knobs.thread_m, AUTO);
    cr_expect_eq(variant.knobs.loop_order, AUTO, "flash has one loop order only");
    cr_expect_str_eq(variant.reason, "");
    template_set_close(set);
}

Test(derive, a_given_value_is_kept) {
    struct template_set *set = open_set();
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.dtype = dtype_bf16;
    knobs.dtype_out = dtype_out_fp32;
    knobs.head_dim_v = 32;
    knobs.block_n = 8;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.knobs.dtype_out, dtype_out_fp32);
    cr_expect_eq(variant.knobs.head_dim_v, 32);
    cr_expect_eq(variant.knobs.block_n, 8);
    template_set_close(set);
}

Test(derive, unused_knobs_are_dropped_or_refused) {
    struct template_set *set = open_set();
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.thread_m = 4;
    cr_expect(variant_complete(set, &knobs, false, &variant));
    cr_expect_eq(variant.knobs.thread_m, AUTO);
    cr_expect_not(variant_complete(set, &knobs, true, &variant));
    cr_expect_str_eq(variant.reason, "thread_m is given as 4, and attention_flash.cu does not use it");
    knobs.thread_m = AUTO;
    knobs.loop_order = loop_order_q_outer; /* the table's default is not a request */
    cr_expect(variant_complete(set, &knobs, true, &variant));
    knobs.loop_order = loop_order_kv_outer;
    cr_expect_not(variant_complete(set, &knobs, true, &variant));
    template_set_close(set);
}

Test(derive, values_outside_the_table_are_refused) {
    static const struct {
        enum knob_id id;
        int value;
        const char *reason;
    } cases[] = {
        {KNOB_head_dim, 0, "head_dim is 0, not within 1 to 576"},
        {KNOB_head_dim, 577, "head_dim is 577, not within 1 to 576"},
        {KNOB_threads, -5, "threads is -5, not within 32 to 1024"},
        {KNOB_dtype, 17, "dtype has no word number 17"},
        {KNOB_family, -3, "family has no word number -3"},
        {KNOB_target, 33, "target has no word number 33"},
        {KNOB_algorithm, algorithm_fold, "family attention_forward has no algorithm fold with loop_order q_outer"},
        {KNOB_family, AUTO, "the family is not given"},
    };
    struct template_set *set = open_set();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct knobs knobs = template_text_knobs();
        struct variant variant;
        knob_set(&knobs, cases[i].id, cases[i].value);
        cr_expect_not(variant_complete(set, &knobs, false, &variant));
        cr_expect_str_eq(variant.reason, cases[i].reason);
        cr_expect_str_eq(variant.name, "");
    }
    template_set_close(set);
}

Test(derive, printing_names_every_used_knob_in_table_order) {
    struct template_set *set = open_set();
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    struct text text = {0};
    cr_assert(variant_complete(set, &knobs, true, &variant));
    variant_print(&variant, &text);
    cr_expect_str_eq(
        text_string(&text),
        "family: attention_forward, dtype: fp32, dtype_out: fp32, head_dim: 64, head_dim_v: 64, mask: none, "
        "algorithm: flash, block_m: 16, block_n: 32, threads: 32, target: any");
    text_free(&text);
    template_set_close(set);
}

/* --- properties over many variants -------------------------------------------------------------------------------- */

enum { MANY = 20000 };

static struct knobs random_knobs(bool any_family) {
    struct knobs knobs = template_text_knobs();
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct knob_info *info = &knob_table[id];
        int words = 0;
        while (info->words && info->words[words])
            words++;
        if (!any_family && (id == KNOB_family || id == KNOB_algorithm))
            continue;
        if (rand() % 3 && id != KNOB_family && id != KNOB_dtype && id != KNOB_head_dim && id != KNOB_mask)
            continue;
        knob_set(&knobs, id, words ? rand() % words : info->least + rand() % (info->most - info->least + 1) / 8 * 8);
    }
    if (any_family && rand() % 2)
        knobs.algorithm = AUTO;
    return knobs;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct variant *)a)->name, ((const struct variant *)b)->name);
}

/* Collects feasible variants, checks each, then compares neighbours in name order. */
static void check_many(const struct template_set *set, bool any_family, int least) {
    struct variant *all = malloc(MANY * sizeof *all);
    int count = 0, same = 0;
    cr_assert_not_null(all);
    srand(3);
    for (int i = 0; i < MANY; i++) {
        struct knobs knobs = random_knobs(any_family);
        struct variant *variant = &all[count], again;
        if (!variant_complete(set, &knobs, false, variant)) {
            cr_assert(variant->reason[0] && !variant->name[0]);
            continue;
        }
        count++;
        cr_assert(isalpha((unsigned char)variant->name[0]), "%s", variant->name);
        for (const char *c = variant->name; *c; c++)
            cr_assert(isalnum((unsigned char)*c) || *c == '_', "%s", variant->name);
        for (int id = 0; id < KNOB_COUNT; id++)
            cr_assert_eq(knob_get(&variant->knobs, id) != AUTO, knob_in(variant->used, id), "%s", knob_table[id].name);
        cr_assert(variant_complete(set, &variant->knobs, true, &again), "%s",
                  again.reason); /* a complete variant stays complete */
        cr_assert_str_eq(again.name, variant->name);
        cr_assert_arr_eq(&again.knobs, &variant->knobs, sizeof again.knobs);
    }
    cr_assert_gt(count, least);
    qsort(all, (size_t)count, sizeof *all, by_name);
    for (int i = 1; i < count; i++) {
        bool equal = memcmp(&all[i].knobs, &all[i - 1].knobs, sizeof all[i].knobs) == 0;
        cr_assert_eq(equal, strcmp(all[i].name, all[i - 1].name) == 0, "%s", all[i].name);
        same += equal;
    }
    cr_expect_gt(count - same, least); /* otherwise the sample says little */
    free(all);
}

Test(derive, equal_names_mean_equal_knobs_when_everything_is_used) {
    struct template_set *set = open_set();
    check_many(set, false, 1000);
    template_set_close(set);
}

Test(derive, equal_names_mean_equal_knobs_over_all_families) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    check_many(set, true, 500);
    template_set_close(set);
}

static void complete_attention(const struct template_set *set, const char *text, struct variant *variant) {
    struct knobs knobs = knobs_default();
    struct input input = {"problem", text, strlen(text)};
    struct diag diag = {0};
    cr_assert(knobs_parse(&input, 7, &knobs, &diag), "%s", text_string(&diag.text));
    cr_assert(variant_complete(set, &knobs, false, variant), "%s: %s", text, variant->reason);
    diag_free(&diag);
}

/* The first two have equal 32-bit hashes (FNV-1a); the others need parameters that differ in types or in order. */
Test(derive, expressions_that_differ_have_names_that_differ) {
    static const char *const problems[] = {
        "mask='q - k < 171 and k < 2051'",
        "mask='q - k < 367 and k < 2722'",
        "score='s + bias[h]' params='bias: float[heads]'",
        "score='s + bias[h]' params='bias: bf16[heads]'",
        "mask='k < low + high' params='low: int, high: int'",
        "mask='k < low + high' params='high: int, low: int'",
    };
    enum { COUNT = sizeof problems / sizeof *problems };
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    struct variant *all = calloc(COUNT, sizeof *all);
    for (int i = 0; i < COUNT; i++) {
        char text[256];
        snprintf(text, sizeof text, "family=attention_forward dtype=fp32 head_dim=64 algorithm=flash %s", problems[i]);
        complete_attention(set, text, &all[i]);
        for (int j = 0; j < i; j++)
            cr_expect(strcmp(all[i].name, all[j].name) != 0 && !variant_same(&all[i], &all[j]), "%s and %s are %s",
                      problems[i], problems[j], all[i].name);
    }
    free(all);
    template_set_close(set);
}

static void print_sum(int count, struct text *mask, struct text *params) {
    text_print(mask, "k < 0");
    for (int i = 0; i < count; i++) {
        text_print(mask, " + p%d", i);
        text_print(params, "%sp%d: int", i ? ", " : "", i);
    }
}

Test(derive, too_many_parameters_are_refused_with_their_limit) {
    static const struct {
        int count, sinks;
        const char *says; /* null = accepted */
    } cases[] = {
        {16, 0, NULL},
        {15, 1, NULL},
        {17, 0, "this is parameter 17, and there may be 16 at most"},
        {16, 1, "mask and score take 16 parameters, and with sinks there may be 15"},
    };
    struct diag none = {0};
    struct template_set *set = template_set_open(NULL, NULL, &none);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text mask = {0}, params = {0}, text = {0};
        struct knobs knobs = knobs_default();
        struct variant variant = {.reason = ""};
        struct diag diag = {0};
        print_sum(cases[i].count, &mask, &params);
        text_print(&text, "family=attention_forward dtype=fp32 head_dim=64 sinks=%d mask='%s' params='%s'",
                   cases[i].sinks, text_string(&mask), text_string(&params));
        struct input input = {"problem", text.bytes, text.size};
        bool good = knobs_parse(&input, 7, &knobs, &diag) && variant_complete(set, &knobs, false, &variant);
        cr_expect_eq(good, cases[i].says == NULL, "%s%s", text_string(&diag.text), variant.reason);
        cr_expect(!cases[i].says || strstr(text_string(&diag.text), cases[i].says) ||
                      strstr(variant.reason, cases[i].says),
                  "%s%s", text_string(&diag.text), variant.reason);
        diag_free(&diag);
        text_free(&mask);
        text_free(&params);
        text_free(&text);
    }
    template_set_close(set);
}

/* A hash cannot promise that names differ, so the place that keeps names checks it. */
Test(derive, two_variants_of_one_name_are_refused) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    struct variant a, b, c;
    struct variant_names names = {0};
    struct text error = {0};
    complete_attention(set, "family=attention_forward dtype=fp32 head_dim=64 mask='k < 7'", &a);
    complete_attention(set, "family=attention_forward dtype=fp32 head_dim=64 mask='k < 8'", &b);
    c = b;
    memcpy(c.name, a.name, sizeof c.name);
    cr_expect_eq(variant_names_take(&names, &a, &error), VARIANT_NAMES_NEW);
    cr_expect_eq(variant_names_take(&names, &b, &error), VARIANT_NAMES_NEW);
    cr_expect_eq(variant_names_take(&names, &a, &error), VARIANT_NAMES_KNOWN);
    cr_expect_eq(error.size, 0);
    cr_expect_eq(variant_names_take(&names, &c, &error), VARIANT_NAMES_FAILED);
    cr_expect(strstr(text_string(&error), a.name) && strstr(text_string(&error), "k < 7") &&
                  strstr(text_string(&error), "k < 8"),
              "%s", text_string(&error));
    variant_names_free(&names);
    text_free(&error);
    template_set_close(set);
}

Test(derive, tiles_may_follow_from_the_room_that_the_target_has) {
    static const char roomy[] = "//$ if 1024 * 100 <= target_shared_bytes\n"
                                "//$ default stages = 2\n"
                                "//$ else\n"
                                "//$ default stages = 1\n"
                                "//$ end\n"
                                "//$ launch kernel grid 1 block 32 shared target_shared_bytes\n"
                                "int x = STAGES;\n";
    static struct template_text text = {roomy, sizeof roomy - 1};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    for (int target = 0; knob_table[KNOB_target].words[target]; target++) {
        struct knobs knobs = template_text_knobs();
        struct variant variant;
        knobs.target = target;
        cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
        cr_expect_eq(variant.shared_bytes, target_info(target)->shared_bytes);
        cr_expect_eq(variant.knobs.stages, target_info(target)->shared_bytes >= 1024 * 100 ? 2 : 1);
    }
    template_set_close(set);
}

/* Other code asks the variant for values that the template derived, and for its grid. */
Test(derive, a_variant_knows_lets_launches_and_grid) {
    static const char source[] = "//$ let rows = threads / 8\n"
                                 "//$ if mask == causal\n"
                                 "//$ let overlap_q_tiles = true\n"
                                 "//$ end\n"
                                 "//$ launch first grid 1 block 32 shared 0\n"
                                 "//$ launch kernel grid (len_q + rows - 1) / rows block threads shared 0\n";
    static struct template_text text = {source, sizeof source - 1};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    struct knobs knobs = template_text_knobs();
    const struct shape shape = {.len_q = 33};
    struct variant variant;
    int64_t blocks;
    knobs.threads = 64;
    knobs.mask = mask_none;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.derived[DERIVED_rows], 8);
    cr_expect_eq(variant.derived[DERIVED_overlap_q_tiles], DERIVED_NONE, "a let in a branch that is not taken");
    cr_expect_eq(variant.derived[DERIVED_lanes], DERIVED_NONE, "no such let");
    cr_expect_eq(variant.launches, 2);
    cr_expect(plan_eval(&variant.grid, &shape, &blocks) && blocks == 5);
    knobs.mask = mask_causal;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.derived[DERIVED_overlap_q_tiles], 1);
    template_set_close(set);
}

/* A reason gives the location and cuts no value, however many values a condition has. */
Test(derive, a_reason_is_never_cut) {
    enum { NAMES = 50 };
    struct text text = {0};
    struct diag diag = {0};
    for (int i = 0; i < NAMES; i++)
        text_print(&text, "//$ let number_%d_of_many = %d\n", i, 1000000 + i);
    text_print(&text, "//$ launch kernel grid 1 block 32 shared 0\n//$ require 0 == number_0_of_many");
    for (int i = 1; i < NAMES; i++)
        text_print(&text, " + number_%d_of_many", i);
    text_print(&text, "\n");
    struct template_set *set = template_text_open(&(struct template_text){text_string(&text), text.size}, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    cr_expect_not(variant_complete(set, &knobs, true, &variant));
    cr_expect(strstr(variant.reason, ", ... (attention_flash.cu:52)"), "%s", variant.reason);
    for (const char *at = variant.reason; (at = strstr(at, "_many is ")); at++)
        cr_expect_eq(strspn(at + strlen("_many is "), "0123456789"), 7, "%s", variant.reason);
    template_set_close(set);
    text_free(&text);
}
