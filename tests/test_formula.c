#include "helper_cases.h"
#include "formulas.h"
#include "helper_formula.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- text cases: one formula a line; a line "name: type" declares a parameter -------------------------------------- */

struct state {
    struct formula_scope scope;
    enum formula_kind kind;
    struct text *output;
};

static void show(const struct formula *formula, struct text *output) {
    const char *word = formula_word(formula);
    text_print(output, "  = ");
    formula_print(formula, output);
    text_print(output, "\n  c++ ");
    formula_print_cuda(formula, NULL, output);
    text_print(output, word ? "\n  which is %s\n" : "\n", word);
}

static void show_bounds(const struct formula *mask, struct text *output) {
    struct formula *some, *all;
    struct formula_keys keys;
    cr_assert(formula_tile(mask, &some, &all) && formula_keys(mask, &keys));
    const struct formula *const formulas[] = {some, all, keys.first, keys.end, keys.full_first, keys.full_end};
    static const char *const names[] = {"some", "all", "first", "end", "full_first", "full_end"};
    for (int i = 0; i < 6; i++) {
        text_print(output, "  %s: ", names[i]);
        formula_print_cuda(formulas[i], NULL, output);
        text_print(output, "\n");
    }
    text_print(output, "  %s, %s\n", keys.exact ? "exact" : "not exact",
               keys.exact_full ? "full exact" : "full not exact");
    formula_free(some);
    formula_free(all);
    formula_keys_free(&keys);
}

static void show_fold(const struct formula *score, struct text *output) {
    struct formula_fold fold;
    cr_assert(formula_fold_score(score, &fold));
    if (!fold.factor)
        text_print(output, "  is not folded");
    const struct formula *const formulas[] = {fold.cap, fold.factor, fold.rest, fold.slope};
    static const char *const names[] = {"cap", "factor", "rest", "slope"};
    for (int i = 0; i < 4; i++)
        if (formulas[i]) {
            text_print(output, "  %s ", names[i]);
            formula_print(formulas[i], output);
        }
    text_print(output, fold.by_distance ? "  by distance\n" : "\n");
    formula_fold_free(&fold);
}

static void show_slope(const struct formula *score, struct text *output) {
    struct formula *slope = formula_slope(score);
    cr_assert(slope);
    text_print(output, "  slope ");
    formula_print(slope, output);
    text_print(output, "\n");
    formula_free(slope);
}

/* "param: type", "mask: ...", "score: ...", "bounds: ..." (a mask with its bounds), "fold: ..." */
static void run_line(struct state *state, const char *line, size_t size) {
    char copy[1024], *text = copy;
    cr_assert_lt(size, sizeof copy);
    memcpy(copy, line, size);
    copy[size] = '\0';
    struct input input = {"spec", copy, size};
    struct diag diag = {0};
    char *colon = strchr(copy, ':');
    cr_assert(colon, "%s", copy);
    size_t key = (size_t)(colon - copy);
    text = colon + 2;
    struct place place = {&input, 1, (int)(text - copy) + 1};
    bool bounds = strncmp(copy, "bounds:", key + 1) == 0, fold = strncmp(copy, "fold:", key + 1) == 0;
    bool mask = bounds || strncmp(copy, "mask:", key + 1) == 0;
    text_print(state->output, "%s\n", copy);
    if (mask || fold || strncmp(copy, "score:", key + 1) == 0) {
        struct formula *formula =
            formula_parse(mask ? FORMULA_MASK : FORMULA_SCORE, place, text, strlen(text), &state->scope, &diag);
        cr_assert_eq(formula == NULL, diag.errors == 1, "one error a formula");
        if (formula)
            show(formula, state->output);
        if (formula && bounds)
            show_bounds(formula, state->output);
        if (formula && fold)
            show_fold(formula, state->output);
        if (formula && fold)
            show_slope(formula, state->output);
        formula_free(formula);
    } else {
        *colon = '\0';
        struct text shown = {0};
        char name[64];
        snprintf(name, sizeof name, "%.63s", copy);
        *colon = ':'; /* messages show the line */
        if (formula_declare(&state->scope, (struct place){&input, 1, 1}, name, place, text, &diag)) {
            formula_print_params(&state->scope, 1u << (state->scope.count - 1), &shown);
            text_print(state->output, "  declared %s\n", text_string(&shown));
        }
        text_free(&shown);
    }
    text_append(state->output, text_string(&diag.text), diag.text.size);
    diag_free(&diag);
}

static void run_lines(const char *title, const char *text, size_t size, struct text *output) {
    struct state state = {.output = output};
    (void)title;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        if (length)
            run_line(&state, at, length);
        at += length + 1;
    }
    formula_scope_free(&state.scope);
}

Test(formula, says_what_it_understood_and_what_it_did_not) {
    int count = 0;
    cr_expect_eq(cases_check("formula/language", run_lines, &count), 0);
    cr_expect_eq(cases_check("formula/errors", run_lines, &count), 0);
    cr_expect_eq(cases_check("formula/bounds", run_lines, &count), 0);
    cr_expect_gt(count, 10);
}

/* --- properties ------------------------------------------------------------------------------------------------------ */

static void print_into(const struct formula *formula, struct text *text) {
    text_free(text);
    formula_print(formula, text);
}

Test(formula, canonical_text_reads_back_as_itself_and_means_the_same) {
    struct formula_scope scope;
    int read = 0;
    formula_fixture_scope(&scope);
    for (unsigned i = 0; i < 6000; i++) {
        static const enum formula_flavor flavors[] = {FLAVOR_MASK, FLAVOR_SCORE, FLAVOR_AFFINE};
        enum formula_flavor flavor = flavors[i % 3];
        enum formula_kind kind = flavor == FLAVOR_SCORE ? FORMULA_SCORE : FORMULA_MASK;
        struct text text = {0}, first = {0}, second = {0};
        unsigned seed = i;
        formula_draw(flavor, 1 + (int)(i % 5), &seed, &text);
        struct formula *formula = formula_fixture_parse(kind, text_string(&text), &scope, false);
        if (formula) {
            print_into(formula, &first);
            struct formula *again = formula_fixture_parse(kind, text_string(&first), &scope, true);
            cr_assert(again, "%s\n%s", text_string(&text), text_string(&first));
            print_into(again, &second);
            cr_assert_str_eq(text_string(&first), text_string(&second), "%s", text_string(&text));
            struct formula_fixture fixture;
            for (int round = 0; round < 5; round++) {
                formula_fixture_draw(&fixture, &scope, &seed);
                fixture.env.name[FORMULA_K] = round;
                fixture.env.name[FORMULA_Q] = 2 * round - 3;
                fixture.env.score = 0.25 * round;
                if (kind == FORMULA_MASK)
                    cr_assert_eq(formula_mask(formula, &fixture.env), formula_mask(again, &fixture.env), "%s\n%s",
                                 text_string(&text), text_string(&first));
            }
            read++;
            formula_free(again);
        }
        formula_free(formula);
        text_free(&text);
        text_free(&first);
        text_free(&second);
    }
    cr_assert_gt(read, 4000, "%d", read);
    formula_scope_free(&scope);
}

Test(formula, equal_meanings_have_equal_texts) {
    static const char *const same[][3] = {
        {"causal", "k<=q", "((q >= (k)))"},
        {"sliding_window(3, 0)", "q - k <= 3 and (k - q <= 0)", "(q-k<=3)and(k-q<=0)"},
        {"k <= q and (k < 3 and q < 9)", "(k <= q and k < 3) and q < 9", "not (q < k or k >= 3 or q >= 9)"},
        {"k < 2 * 8", "k < 16", "16 > k"},
        {"0 <= q - k < 4", "0 <= q - k and q - k < 4", "q - k >= 0 and 4 > q - k"},
        {"none and causal", "causal and true", "k <= q or false"},
        {"mod(k, 2) == 0", "k % 2 == 0", "(k % 2) == (1 - 1)"},
        {"clamp(k, 0, 7) == q", "min(max(k, 0), 7) == q", "min(k, 7) == q"},
    };
    struct formula_scope scope;
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct text text[3] = {{0}, {0}, {0}};
        for (int j = 0; j < 3; j++) {
            struct formula *formula = formula_fixture_parse(FORMULA_MASK, same[i][j], &scope, true);
            cr_assert(formula);
            formula_print(formula, &text[j]);
            formula_free(formula);
            cr_expect_str_eq(text_string(&text[0]), text_string(&text[j]));
        }
        for (int j = 0; j < 3; j++)
            text_free(&text[j]);
    }
    formula_scope_free(&scope);
}

Test(formula, every_entry_of_the_table_is_written_in_the_language) {
    for (int i = 0; i < formula_table_count; i++) {
        const struct formula_entry *entry = &formula_table[i];
        struct formula_scope scope = {0};
        struct text call = {0};
        struct diag diag = {0};
        text_print(&call, entry->params[0] ? "%s(" : "%s", entry->name);
        /* Declares its parameters as my_NAME, and passes those. */
        for (const char *at = entry->params; *at;) {
            char name[32], type[128];
            size_t size = strcspn(at, ":"), end = size + 2;
            for (int depth = 0; at[end] && (depth || at[end] != ','); end++)
                depth += (at[end] == '[' || at[end] == '(') - (at[end] == ']' || at[end] == ')');
            snprintf(name, sizeof name, "my_%.*s", (int)size, at);
            snprintf(type, sizeof type, "%.*s", (int)(end - size - 2), at + size + 2);
            cr_assert(formula_declare(&scope, (struct place){0}, name, (struct place){0}, type, &diag), "%s",
                      text_string(&diag.text));
            text_print(&call, scope.count > 1 ? ", %s" : "%s", name);
            at += at[end] ? end + 2 : end;
        }
        text_print(&call, entry->params[0] ? ")" : "");
        struct formula *formula = formula_fixture_parse(entry->kind, text_string(&call), &scope, true);
        cr_assert(formula, "%s", text_string(&call));
        cr_expect_eq(formula_params(formula), (1u << scope.count) - 1, "%s uses all its parameters", entry->name);
        if (!entry->params[0])
            cr_expect_str_eq(formula_word(formula), entry->name);
        cr_expect_eq(formula_is_none(formula), strcmp(entry->name, "none") == 0);
        formula_free(formula);
        formula_scope_free(&scope);
        text_free(&call);
        diag_free(&diag);
    }
}

Test(formula, size_and_depth_are_limited) {
    static const struct {
        const char *repeat, *around, *message;
        int times;
    } cases[] = {
        {"(", "k", "nests too deeply", 400},
        {"not ", "causal", "nests too deeply", 400},
        {"-", "k < 0", "nests too deeply", 400},
        {"k + ", "k < 0", "nests too deeply", 400},
        {"k < q and q < k and ", "causal", "too deeply", 120},
        {"x", " == 1", "longer than 4096 bytes", 5000},
    };
    struct formula_scope scope;
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = {0};
        for (int n = 0; n < cases[i].times; n++)
            text_print(&text, "%s", cases[i].repeat);
        text_print(&text, "%s", cases[i].around);
        struct input input = {"formula", text_string(&text), text.size};
        struct diag diag = {0};
        struct formula *formula =
            formula_parse(FORMULA_MASK, (struct place){&input, 1, 1}, input.text, input.size, &scope, &diag);
        cr_expect(!formula && strstr(text_string(&diag.text), cases[i].message), "%s: %s", cases[i].repeat,
                  text_string(&diag.text));
        formula_free(formula);
        diag_free(&diag);
        text_free(&text);
    }
    formula_scope_free(&scope);
}

/* Compares with differences of the evaluator, wherever the left and the right one agree. */
Test(formula, slopes_are_those_of_the_score) {
    struct formula_scope scope;
    int compared = 0;
    formula_fixture_scope(&scope);
    for (unsigned i = 0; i < 1500; i++) {
        struct text text = {0};
        unsigned seed = i;
        formula_draw(FLAVOR_SCORE, 1 + (int)(i % 4), &seed, &text);
        struct formula *score = formula_fixture_parse(FORMULA_SCORE, text_string(&text), &scope, false);
        struct formula *slope = score ? formula_slope(score) : NULL;
        for (int round = 0; slope && round < 6; round++) {
            const double step = 1e-5, at = 0.37 * round - 0.9;
            struct formula_fixture fixture;
            double value[3];
            formula_fixture_draw(&fixture, &scope, &seed);
            fixture.finite = true; /* infinities have no differences */
            fixture.scalar[2].real = fmin(fabs(fixture.scalar[2].real), 8);
            for (int side = 0; side < 3; side++) {
                fixture.env.score = at + (side - 1) * step;
                value[side] = formula_score(score, &fixture.env);
            }
            fixture.env.score = at;
            double left = (value[1] - value[0]) / step, right = (value[2] - value[1]) / step;
            double found = formula_score(slope, &fixture.env), wanted = (left + right) / 2;
            double size = 1 + fabs(wanted) + 1e-5 * fabs(value[1]);
            if (!(fabs(left - right) < 1e-3 * size)) /* a step, a corner, or no number */
                continue;
            cr_assert(fabs(found - wanted) < 1e-3 * size, "%s at %g: slope %g, differences %g", text_string(&text), at,
                      found, wanted);
            compared += wanted != 0;
        }
        formula_free(slope);
        formula_free(score);
        text_free(&text);
    }
    cr_assert_gt(compared, 1500, "%d", compared);
    formula_scope_free(&scope);
}

Test(formula, indices_that_step_by_query_are_found) {
    enum { NEVER = 99 }; /* the step varies from query to query */
    static const char declared[] = "t: float[100]";
    static const struct {
        const char *index;
        int64_t step;
    } cases[] = {{"q", 1},
                 {"k", 0},
                 {"2 * q + k", 2},
                 {"90 - 3 * q - (k - q)", -2},
                 {"len_q", 0},
                 {"clamp(k - q, 0, 3)", NEVER},
                 {"q // 2", NEVER},
                 {"q * q % 50", NEVER},
                 {"abs(q - k)", NEVER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct formula_scope scope = {0};
        struct diag diag = {0};
        struct formula_reads reads;
        char text[80];
        int64_t step = 0;
        cr_assert(formulas_declare(&scope, (struct formula_text){declared, strlen(declared), {0}}, &diag));
        snprintf(text, sizeof text, "s + t[%s]", cases[i].index);
        struct formula *score = formula_fixture_parse(FORMULA_SCORE, text, &scope, false);
        cr_assert(score && formula_reads_find(score, 1, &reads) && reads.count == 1, "%s", text);
        bool steps = formula_steps_by_query(reads.read[0].index[0], &step);
        cr_expect_eq(steps, cases[i].step != NEVER, "%s", text);
        cr_expect(!steps || step == cases[i].step, "%s: %d", text, (int)step);
        formula_reads_free(&reads);
        formula_free(score);
        formula_scope_free(&scope);
        diag_free(&diag);
    }
}

/* `then` may repeat what precedes it any number of times, so parts are counted as if they were written out. */
Test(formula, chains_cannot_grow_without_bound) {
    struct text text = {0};
    struct formula_scope scope;
    formula_fixture_scope(&scope);
    text_print(&text, "s");
    for (int i = 0; i < 20; i++)
        text_print(&text, " then s * s + s");
    struct formula *formula = formula_fixture_parse(FORMULA_SCORE, text_string(&text), &scope, false);
    cr_assert(!formula);
    text_free(&text);
    formula_scope_free(&scope);
}

Test(formula, values_are_those_of_the_definition) {
    static const struct {
        const char *score;
        double value; /* with q = -3, k = 7, s = 0.5, window = 4, cap = 2 */
    } cases[] = {
        {"q // 2", -2},
        {"q % 2", 1},
        {"k // -2", -4},
        {"k % -2", -1},
        {"k // 0", 0},
        {"k % 0", 7},
        {"k / 2", 3.5},
        {"q / 2", -1.5},
        {"~q", 2},
        {"q & 5", 5},
        {"q | 4", -3},
        {"q ^ 1", -4},
        {"q >> 1", -2},
        {"q >> 1000", -1},
        {"1 << min(k, 60)", 128},
        {"k >> -1", 7},
        {"abs(q)", 3},
        {"floor(-0.5)", -1},
        {"floor(s)", 0},
        {"floor(-1e30)", -2147483648.0},
        {"floor(inf - inf)", 0},
        {"min(q, k, 2)", -3},
        {"max(q, k, 2)", 7},
        {"clamp(k, 0, 5)", 5},
        {"1 if q < k else 2", 1},
        {"1 if q > k else 2 if k < 0 else 3", 3},
        {"2 + 3 * 4", 14},
        {"-k + 1", -6},
        {"2 - 3 - 4", -5},
        {"1 << 2 + 1", 8},
        {"7 & 3 + 1", 4},
        {"s then s + 1 then s * 4", 6},
        {"(s then s + 1) * 4", 6},
        {"k - q == 10 and 1 < 2 < 3", -1},
        {"exp(0)", 1},
        {"sqrt(4)", 2},
        {"sigmoid(0)", 0.5},
        {"tanh(0)", 0},
        {"log(1)", 0},
        {"-inf", -INFINITY},
        {"s * 1e38 * 100", 0.5e40},
        {"real(k) / 2", 3.5},
        {"window * cap", 8},
    };
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    fixture.env.name[FORMULA_Q] = -3;
    fixture.env.name[FORMULA_K] = 7;
    fixture.env.score = 0.5;
    fixture.scalar[0].integer = 4;
    fixture.scalar[2].real = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool refused = strstr(cases[i].score, " and ") != NULL; /* true is not a number */
        struct formula *formula = formula_fixture_parse(FORMULA_SCORE, cases[i].score, &scope, !refused);
        cr_assert_eq(formula == NULL, refused, "%s", cases[i].score);
        double found = formula ? formula_score(formula, &fixture.env) : 0, wanted = cases[i].value;
        cr_expect(refused || found == wanted || fabs(found - wanted) <= 1e-6 * fabs(wanted), "%s: %g", cases[i].score,
                  found);
        formula_free(formula);
    }
    formula_scope_free(&scope);
}

Test(formula, conditions_too_long_for_a_line_go_on_in_the_next) {
    struct formula_spelling spelling = {.indent = 4};
    struct formula_scope scope;
    struct text text = {0};
    formula_fixture_scope(&scope);
    struct formula *mask =
        formula_fixture_parse(FORMULA_MASK,
                              "(doc[b, clamp(q, 0, len_kv - 1)] == doc[b, k] or wide and k < window) "
                              "and k <= q and doc[b, k] % 12345678 < 1234567",
                              &scope, true);
    formula_print_cuda(mask, &spelling, &text);
    cr_expect_str_eq(text_string(&text),
                     "(doc_at(p, b, min(max(q, 0), len_kv - 1)) == doc_at(p, b, k) || (p.wide && k < "
                     "p.window)) &&\n    k <= q &&\n    floor_modulo(doc_at(p, b, k), 12345678) < 1234567");
    formula_free(mask);
    text_free(&text);
    mask = formula_fixture_parse(FORMULA_MASK, "k <= q and k < window", &scope, true);
    formula_print_cuda(mask, &spelling, &text);
    cr_expect_str_eq(text_string(&text), "k <= q && k < p.window");
    formula_free(mask);
    text_free(&text);
    formula_scope_free(&scope);
}

/* YAML scalars: the reader knows where they begin and what they contain. */
Test(formula, errors_point_into_folded_text) {
    static const struct {
        const char *input; /* the formula begins at line 1, column 4 */
        const char *text;  /* the text that YAML makes of it */
        int line, col;
    } cases[] = {
        {"m: k <= q and\n    k < what", "k <= q and k < what", 2, 9},
        {"m: >-\n  k <= q and\n\n  k < what\n", "k <= q and\nk < what", 4, 7},
        {"m: |\n  k <= q and\n  k < what\n", "k <= q and\nk < what\n", 3, 7},
        {"m: \"k <= q\n   and k < what\"", "k <= q and k < what", 2, 12},
        {"m: 'k < what'", "k < what", 1, 9},
        {"m: k <= q and", "k <= q and", 1, 14},
        {"m: \"k \\x3c what\"", "k < what", 1, 8}, /* an escape: only the beginning is known */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct input input = {"spec.yaml", cases[i].input, strlen(cases[i].input)};
        struct diag diag = {0};
        char place[64];
        struct formula *formula = formula_parse(FORMULA_MASK, (struct place){&input, 1, 4}, cases[i].text,
                                                strlen(cases[i].text), NULL, &diag);
        snprintf(place, sizeof place, "spec.yaml:%d:%d: error", cases[i].line, cases[i].col);
        cr_expect(!formula && strncmp(text_string(&diag.text), place, strlen(place)) == 0, "%s\n%s", place,
                  text_string(&diag.text));
        diag_free(&diag);
    }
}
