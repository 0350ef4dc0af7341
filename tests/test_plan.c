#include "plan.h"
#include "knobs.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#define CONSTANT(n)                                                                                                    \
    { PLAN_CONSTANT, n }
#define SIZE(name)                                                                                                     \
    { PLAN_SHAPE, SHAPE_##name }
#define OP(op)                                                                                                         \
    { PLAN_##op, 0 }

static const struct shape shape = {.batch = 2, .heads = 3, .len_q = 100, .len_kv = 7, .rows = INT64_MAX, .sm_count = 4};

Test(plan, evaluates_and_prints_with_the_fewest_parentheses) {
    static const struct {
        struct plan_expr expr;
        int64_t value;
        const char *text;
    } cases[] = {
        {{1, {CONSTANT(0)}}, 0, "0"},
        {{1, {SIZE(len_q)}}, 100, "len_q"},
        {{3, {SIZE(batch), SIZE(heads), OP(MULTIPLY)}}, 6, "batch * heads"},
        {{7, {SIZE(len_q), CONSTANT(63), OP(ADD), CONSTANT(64), OP(DIVIDE), SIZE(heads), OP(MULTIPLY)}},
         6,
         "(len_q + 63) / 64 * heads"},
        {{5, {SIZE(len_q), SIZE(heads), SIZE(batch), OP(SUBTRACT), OP(SUBTRACT)}}, 99, "len_q - (heads - batch)"},
        {{5, {SIZE(len_q), SIZE(heads), OP(SUBTRACT), SIZE(batch), OP(SUBTRACT)}}, 95, "len_q - heads - batch"},
        {{5, {SIZE(len_q), SIZE(len_kv), SIZE(heads), OP(DIVIDE), OP(MULTIPLY)}}, 200, "len_q * (len_kv / heads)"},
        {{5, {SIZE(len_q), SIZE(len_kv), OP(MULTIPLY), SIZE(heads), OP(MODULO)}}, 1, "len_q * len_kv % heads"},
        {{5, {SIZE(sm_count), SIZE(len_q), CONSTANT(9), OP(DIVIDE), OP(MIN)}}, 4, "min(sm_count, len_q / 9)"},
        {{5, {SIZE(len_kv), SIZE(heads), OP(MAX), SIZE(batch), OP(MULTIPLY)}}, 14, "max(len_kv, heads) * batch"},
        {{5, {SIZE(batch), SIZE(len_kv), CONSTANT(8), OP(MAX), OP(SUBTRACT)}}, -6, "batch - max(len_kv, 8)"},
        {{5, {SIZE(len_kv), CONSTANT(1), OP(ADD), SIZE(heads), OP(MIN)}}, 3, "min(len_kv + 1, heads)"},
        {{3, {CONSTANT(-7), CONSTANT(2), OP(DIVIDE)}}, -3, "-7 / 2"}, /* truncates as in C */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = {0};
        int64_t value = -1;
        plan_print(&cases[i].expr, &text);
        cr_expect(plan_eval(&cases[i].expr, &shape, &value), "%s", cases[i].text);
        cr_expect_eq(value, cases[i].value, "%s is %" PRId64, cases[i].text, value);
        cr_expect_str_eq(text_string(&text), cases[i].text);
        text_free(&text);
    }
}

Test(plan, what_has_no_value_says_so) {
    static const struct plan_expr cases[] = {
        {3, {SIZE(rows), CONSTANT(1), OP(ADD)}},
        {3, {SIZE(rows), CONSTANT(2), OP(MULTIPLY)}},
        {3, {CONSTANT(1), SIZE(parts), OP(DIVIDE)}},
        {3, {CONSTANT(1), SIZE(parts), OP(MODULO)}},
        {3, {CONSTANT(INT64_MIN), CONSTANT(-1), OP(DIVIDE)}},
        {3, {CONSTANT(INT64_MIN), CONSTANT(-1), OP(MODULO)}},
        {3, {CONSTANT(INT64_MIN), CONSTANT(1), OP(SUBTRACT)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value;
        cr_expect_not(plan_eval(&cases[i], &shape, &value), "case %zu", i);
    }
}

/* A plan may come from a damaged file. It is refused, and nothing outside its array is touched. */
Test(plan, malformed_expressions_are_refused) {
    static const struct plan_expr cases[] = {
        {0, {CONSTANT(1)}},
        {-1, {CONSTANT(1)}},
        {PLAN_STEPS + 1, {CONSTANT(1)}},
        {2, {CONSTANT(1), CONSTANT(1)}},
        {2, {CONSTANT(1), OP(ADD)}},
        {1, {OP(MULTIPLY)}},
        {1, {{PLAN_SHAPE, SHAPE_COUNT}}},
        {1, {{PLAN_SHAPE, -1}}},
        {3, {CONSTANT(1), CONSTANT(1), {(enum plan_op)(PLAN_MAX + 1), 0}}},
        {4, {OP(ADD), CONSTANT(1), CONSTANT(1), CONSTANT(1)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = {0};
        int64_t value;
        cr_expect_not(plan_eval(&cases[i], &shape, &value), "case %zu", i);
        plan_print(&cases[i], &text);
        cr_expect_str_eq(text_string(&text), "?", "case %zu", i);
        text_free(&text);
    }
}

Test(plan, random_steps_print_exactly_when_they_are_well_formed) {
    srand(1);
    int sound = 0;
    for (int round = 0; round < 20000; round++) {
        struct plan_expr expr = {.count = rand() % 8};
        int depth = 0;
        bool good = expr.count > 0;
        for (int i = 0; i < expr.count; i++) {
            expr.step[i].op = (enum plan_op)(rand() % (PLAN_MAX + 1));
            expr.step[i].value = rand() % 5 + 1;
            depth += expr.step[i].op < PLAN_ADD ? 1 : -1;
            good &= depth >= 1;
        }
        good &= depth == 1;
        struct text text = {0};
        plan_print(&expr, &text);
        cr_assert_eq(good, text_string(&text)[0] != '?', "%s", text_string(&text));
        text_free(&text);
        sound += good;
    }
    cr_assert_gt(sound, 100);
}

Test(plan, sizes_are_found_by_their_whole_name) {
    cr_assert_eq(shape_find("len_q", 5), SHAPE_len_q);
    cr_assert_eq(shape_find("len_", 4), -1);
    cr_assert_eq(shape_find("len_qq", 6), -1);
    cr_assert_eq(shape_find("", 0), -1);
    cr_assert(shape_table[SHAPE_rows].families == 1u << family_softmax);
}

/* --- splits ---------------------------------------------------------------------------------------------------------- */

static int64_t split(int64_t most, int64_t tiles, int64_t on, int64_t keys, int64_t seen) {
    const struct plan_splits splits = {{{1, {{PLAN_CONSTANT, most}}},
                                        {1, {{PLAN_CONSTANT, tiles}}},
                                        {1, {{PLAN_CONSTANT, on}}},
                                        {1, {{PLAN_CONSTANT, keys}}},
                                        {1, {{PLAN_CONSTANT, seen}}}}};
    struct shape sizes = {0};
    cr_assert(plan_split(&splits, &sizes));
    return sizes.key_parts;
}

Test(plan, splits_keys_where_that_fills_more_multiprocessors) {
    cr_expect_eq(split(64, 1, 132, 65536, 65536), 64, "one tile of many keys");
    cr_expect_eq(split(7, 1, 132, 65536, 65536), 7);
    cr_expect_eq(split(1, 1, 132, 65536, 65536), 1);
    cr_expect_eq(split(0, 1, 132, 0, 0), 1, "no keys");
    cr_expect_eq(split(64, 64, 132, 32768, 32768), 2, "as many as fit at once");
    cr_expect_eq(split(64, 96, 132, 20000, 20000), 4, "three even waves for one that is not full");
    cr_expect_eq(split(64, 128, 132, 32768, 32768), 1, "nearly full");
    cr_expect_eq(split(64, 140, 132, 32768, 32768), 7, "a second wave that is nearly empty");
    cr_expect_eq(split(64, 64, 132, 512, 512), 1, "few keys are not worth a second launch");
    cr_expect_eq(split(64, 100000, 132, 65536, 65536), 1, "many tiles");
    for (int64_t tiles = 1; tiles < 1200; tiles++) /* never more sequential work than without splits */
        for (int64_t keys = 256; keys <= 65536; keys *= 4) {
            int64_t parts = split(64, tiles, 132, keys, keys);
            cr_assert(parts >= 1 && parts <= 64);
            cr_assert((tiles * parts + 131) / 132 * ((keys + parts - 1) / parts) <= (tiles + 131) / 132 * keys,
                      "%" PRId64 " tiles of %" PRId64 " keys in %" PRId64 " parts", tiles, keys, parts);
        }
}

Test(plan, splits_as_often_as_said_where_nothing_else_is) {
    struct shape sizes = {.len_kv = 40};
    const struct plan_splits none = {0}, most = {{{3, {SIZE(len_kv), CONSTANT(16), OP(MIN)}}}};
    cr_expect(plan_split(&none, &sizes) && sizes.key_parts == 1);
    cr_expect(plan_split(&most, &sizes) && sizes.key_parts == 16);
    const struct plan_splits bad = {{{3, {CONSTANT(1), CONSTANT(0), OP(DIVIDE)}}}}, zero = {{{1, {CONSTANT(0)}}}};
    cr_expect_not(plan_split(&bad, &sizes));
    cr_expect_not(plan_split(&zero, &sizes));
}
