#include "expr.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- text cases: one expression a line ---------------------------------------------------------------------------- */

static const struct expr_name names[] = {
    {"pitch", {EXPR_INT, NULL}}, {"wide", {EXPR_BOOL, NULL}}, {"skipped", {EXPR_INT, NULL}}};
static const struct expr_slot slots[] = {{65, true}, {1, true}, {0, false}};
static const struct expr_scope scope = {names, 3, 1u << family_attention_forward | SHAPE_OF_DEVICE, NULL};

static struct knobs some_knobs(void) {
    struct knobs knobs = knobs_default();
    knobs.family = family_attention_forward;
    knobs.dtype = dtype_fp16;
    knobs.dtype_out = dtype_out_bf16;
    knobs.mask = mask_causal;
    knobs.block_m = 40;
    return knobs;
}

static void show_value(const struct expr *expr, const struct expr_env *env, struct text *output) {
    struct expr_fault fault;
    struct plan_expr plan;
    char shown[EXPR_MESSAGE];
    int64_t value;
    if (expr_items(expr))
        text_print(output, "a list of %d", expr_items(expr));
    else if (expr_eval(expr, env, &value, &fault)) {
        expr_print_value(expr_type(expr), value, shown, sizeof shown);
        text_print(output, "%s", shown);
        expr_explain(expr, env, shown, sizeof shown);
        if (*shown)
            text_print(output, "  (%s)", shown);
    } else if (expr_type(expr).kind == EXPR_INT && expr_plan(expr, env, &plan, &fault)) {
        text_print(output, "at run time ");
        plan_print(&plan, output);
    } else {
        text_print(output, "no value: column %d: %s", fault.place.col, fault.message);
    }
}

static void run_lines(const char *title, const char *text, size_t size, struct text *output) {
    struct knobs knobs = some_knobs();
    struct expr_env env = {&knobs, slots};
    (void)title;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        struct input input = {"expr", at, length};
        struct diag diag = {0};
        struct expr *expr =
            expr_parse((struct place){&input, 1, 1}, at, length, NULL, EXPR_ANY | EXPR_LIST, &scope, &diag);
        cr_assert_eq(expr == NULL, diag.errors > 0);
        if (expr) {
            text_print(output, "%s = ", expr_text(expr));
            show_value(expr, &env, output);
            text_print(output, "\n");
        }
        text_append(output, text_string(&diag.text), diag.text.size);
        expr_free(expr);
        diag_free(&diag);
        at = newline ? newline + 1 : end;
    }
}

Test(expr, text_cases) {
    static const char *const files[] = {"expr/values.txt", "expr/errors.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        cr_expect_eq(cases_check(files[i], run_lines, NULL), 0, "%s", files[i]);
}

/* --- properties ------------------------------------------------------------------------------------------------- */

static struct expr *parse(const char *text, unsigned wanted, struct diag *diag) {
    static struct input input;
    input = (struct input){"expr", text, strlen(text)};
    return expr_parse((struct place){&input, 1, 1}, text, input.size, NULL, wanted, &scope, diag);
}

Test(expr, the_wanted_kind_is_demanded) {
    static const struct {
        const char *text;
        unsigned wanted;
        const char *message; /* null = good */
    } cases[] = {
        {"block_m", EXPR_INT, NULL},
        {"block_m", EXPR_BOOL, "expected a condition, as in head_dim % 16 == 0; this is an integer"},
        {"block_m == 1", EXPR_BOOL, NULL},
        {"block_m == 1", EXPR_INT, "expected an integer; this is true or false"},
        {"mask", EXPR_INT, "expected an integer; this is a word of mask"},
        {"mask", EXPR_ANY, NULL},
        {"[1, 2]", EXPR_ANY, "expected one value; this is a list"},
        {"[1, 2]", EXPR_LIST, NULL},
        {"1", EXPR_LIST, "expected a list, as in [64, 128]; this is an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag diag = {0};
        struct expr *expr = parse(cases[i].text, cases[i].wanted, &diag);
        cr_expect_eq(expr != NULL, cases[i].message == NULL, "%s", cases[i].text);
        if (cases[i].message)
            cr_expect(strstr(text_string(&diag.text), cases[i].message), "%s", text_string(&diag.text));
        expr_free(expr);
        diag_free(&diag);
    }
}

Test(expr, the_knobs_it_names_are_known) {
    struct diag diag = {0};
    struct expr *expr =
        parse("mask == causal and (block_m in [head_dim, 2] or false) and pitch > len_q", EXPR_BOOL, &diag);
    cr_assert_not_null(expr);
    cr_expect_eq(expr_knobs(expr), KNOB_FLAG(KNOB_mask) | KNOB_FLAG(KNOB_block_m) | KNOB_FLAG(KNOB_head_dim));
    expr_free(expr);
}

Test(expr, the_longest_beginning_is_taken_when_more_may_follow) {
    struct diag diag = {0};
    const char *text = "  block_m * 2   block 7";
    struct input input = {"t", text, strlen(text)};
    size_t used = 0;
    struct expr *expr = expr_parse((struct place){&input, 4, 10}, text, input.size, &used, EXPR_INT, NULL, &diag);
    cr_assert_not_null(expr);
    cr_expect_eq(used, 13);
    cr_expect_str_eq(expr_text(expr), "block_m * 2");
    cr_expect_eq(expr_place(expr).line, 4);
    cr_expect_eq(expr_place(expr).col, 12);
    expr_free(expr);
}

Test(expr, the_items_of_a_list_are_values_of_one_type) {
    struct diag diag = {0};
    struct knobs knobs = some_knobs();
    struct expr_env env = {&knobs, slots};
    struct expr_fault fault;
    struct expr *words = parse("[q, k, v]", EXPR_LIST, &diag),
                *numbers = parse("[block_m, 2 * pitch]", EXPR_LIST, &diag);
    cr_assert(words && numbers);
    int64_t value;
    char shown[32];
    cr_expect(expr_eval_item(words, 2, &env, &value, &fault));
    expr_print_value(expr_type(words), value, shown, sizeof shown);
    cr_expect_str_eq(shown, "v");
    cr_expect(expr_eval_item(numbers, 1, &env, &value, &fault));
    cr_expect_eq(value, 130);
    cr_expect_not(expr_eval_item(numbers, 2, &env, &value, &fault));
    expr_free(words);
    expr_free(numbers);
}

/* Text that nests, chains or just goes on is refused with a message and does not crash. */
Test(expr, depth_and_length_are_bounded) {
    static const char *const repeated[] = {"(",        "[",  "-",      "not ", "1+", "1+(",
                                           "true or ", "a[", "1 in [", "- (",  "x ", "9"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        for (int count = 60; count <= 20000; count *= 7) {
            struct text text = {0};
            struct diag diag = {0};
            for (int j = 0; j < count; j++)
                text_print(&text, "%s", repeated[i]);
            text_print(&text, "1");
            struct expr *expr = parse(text_string(&text), EXPR_ANY, &diag);
            cr_expect_eq(expr == NULL, diag.errors > 0, "%s x %d", repeated[i], count);
            if (count > 1000)
                cr_expect_null(expr, "%s x %d", repeated[i], count);
            expr_free(expr);
            diag_free(&diag);
            text_free(&text);
        }
}

/* Random token soup gives a value, a reason why there is none, or an error, and nothing else. */
Test(expr, token_soup_never_crashes) {
    static const char *const tokens[] = {"1",     "0",       "block_m", "mask", "causal", "pitch",
                                         "len_q", "skipped", "(",       ")",    "[",      "]",
                                         ",",     "+",       "-",       "*",    "/",      "%",
                                         "==",    "!=",      "<",       ">=",   "and",    "or",
                                         "not",   "in",      "true",    "zzz",  "@",      "9223372036854775807"};
    struct knobs knobs = some_knobs();
    struct expr_env env = {&knobs, slots};
    srand(7);
    int good = 0;
    for (int round = 0; round < 200000; round++) {
        char text[256] = "";
        for (int i = rand() % 9 + 1; i > 0; i--) {
            strcat(text, tokens[(size_t)rand() % (sizeof tokens / sizeof *tokens)]);
            strcat(text, " ");
        }
        struct diag diag = {0};
        struct expr *expr = parse(text, EXPR_ANY, &diag);
        cr_assert_eq(expr == NULL, diag.errors > 0, "%s", text);
        if (expr) {
            struct expr_fault fault = {{0}, ""};
            int64_t value;
            bool has_value = expr_eval(expr, &env, &value, &fault);
            cr_assert(has_value || fault.message[0], "%s", text);
            good++;
        }
        expr_free(expr);
        diag_free(&diag);
    }
    cr_assert_gt(good, 1000);
}

Test(expr, explaining_into_little_room_is_cut_not_overrun) {
    struct diag diag = {0};
    struct knobs knobs = some_knobs();
    struct expr_env env = {&knobs, slots};
    struct expr *expr = parse("block_m + pitch + head_dim + block_n > 3", EXPR_BOOL, &diag);
    for (size_t size = 1; size < 80; size++) {
        char out[80];
        memset(out, 'x', sizeof out);
        expr_explain(expr, &env, out, size);
        cr_assert_lt(strlen(out), size);
        cr_assert_eq(size == 79 || out[size] == 'x', true);
    }
    expr_free(expr);
}

Test(expr, a_hundred_thousand_evaluations_take_less_than_a_second) {
    struct diag diag = {0};
    struct knobs knobs = some_knobs();
    struct expr_env env = {&knobs, slots};
    struct expr_fault fault;
    struct expr *expr =
        parse("mask == causal and block_m % 8 == 0 and 4 * (block_m + 64) * head_dim <= 65536", EXPR_BOOL, &diag);
    int64_t value, sum = 0;
    clock_t start = clock();
    for (int i = 0; i < 100000; i++)
        sum += expr_eval(expr, &env, &value, &fault) && value;
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_expect_eq(sum, 100000);
    cr_expect_lt(seconds, 1.0, "100,000 evaluations took %g s", seconds); /* ten times what the slowest build needs */
    expr_free(expr);
}
