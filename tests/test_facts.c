/* What templates are told about a mask and a score besides their knobs. */
#include "facts.h"
#include "gen.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *problem;
    const char *facts;
} problems[] = {
    {"", "0 builtin 0 no_lookup 0 plain_score constant no_bias"},
    {"mask=causal", "0 builtin 0 no_lookup 0 plain_score constant no_bias"},
    {"mask=\"k <= q and q - k < w\" params=\"w: int\"", "0 intervals 1 no_lookup 0 plain_score constant no_bias"},
    {"mask=\"(q - k) % 3 == 0\"", "0 bitmap 0 no_lookup 0 plain_score constant no_bias"},
    {"mask=\"causal and document(doc)\" params=\"doc: int[batch, len_kv]\"",
     "1 bitmap 0 by_pair 1 plain_score constant no_bias"},
    {"mask=\"d[b, q // 2] + d[b, k] + d[h, q // 2] > d[b, q // 2]\" params=\"d: int[batch, len_kv]\"",
     "1 bitmap 0 by_pair 2 plain_score constant no_bias"},
    {"mask=\"d[b, k // 2] > 0\" params=\"d: int[batch, len_kv]\"", "1 bitmap 0 by_key 0 plain_score constant no_bias"},
    {"score=softcap(30)", "0 builtin 0 no_lookup 0 tanh constant no_bias"},
    {"score=\"2 * s\"", "0 builtin 0 no_lookup 0 linear constant no_bias"},
    {"score=\"s + slope[h] * (k - q)\" params=\"slope: float[heads]\"", "0 builtin 0 no_lookup 0 linear alibi no_bias"},
    {"score=\"s + 0.5 * k\"", "0 builtin 0 no_lookup 0 linear varying no_bias"},
    {"score=\"s * s\"", "0 builtin 0 no_lookup 0 general constant no_bias"},
    {"score=\"s + bias[h, q, k]\" params=\"bias: bf16[heads, len_q, len_kv]\"",
     "0 builtin 0 no_lookup 0 general varying bias_rows"},
    {"score=\"s + bias[h, q, k]\" params=\"bias: float[heads, len_q, len_kv]\"",
     "0 builtin 0 no_lookup 0 general varying no_bias"},
};

Test(facts, of_masks_and_scores) {
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        struct diag diag = {0};
        struct text text = {0};
        struct expr_slot fact[FACT_COUNT];
        char reason[FACT_REASON];
        struct knobs knobs = knobs_default();
        const struct input input = {"problem", problems[i].problem, strlen(problems[i].problem)};
        cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_PROBLEM, &knobs, &diag), "%s", text_string(&diag.text));
        cr_assert(facts_find(&knobs, fact, reason), "%s", reason);
        for (int id = FACT_mask_tables; id < FACT_score_adds; id++) {
            char value[64];
            expr_print_value(fact_table[id].name.type, fact[id].value, value, sizeof value);
            text_print(&text, "%s%s", text.size ? " " : "", value);
        }
        cr_expect_str_eq(text_string(&text), problems[i].facts, "%s: %s", problems[i].problem, text_string(&text));
        text_free(&text);
        diag_free(&diag);
    }
}

Test(facts, of_a_target) {
    struct expr_slot fact[FACT_COUNT];
    char reason[FACT_REASON];
    struct knobs knobs = knobs_default();
    knobs.target = target_sm_90a;
    cr_assert(facts_find(&knobs, fact, reason));
    cr_expect_eq(fact[FACT_target_shared_bytes].value, target_info(target_sm_90a)->shared_bytes);
    static const struct {
        int target, dependents;
    } cases[] = {{target_any, 0},   {target_sm_80, 0},  {target_sm_86, 0}, {target_sm_89, 0},
                 {target_sm_90, 1}, {target_sm_90a, 1}, {target_sm_120, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        knobs.target = cases[i].target;
        cr_assert(facts_find(&knobs, fact, reason));
        cr_expect_eq(fact[FACT_dependent_launches].value, cases[i].dependents, "%s",
                     target_info(cases[i].target)->name);
    }
}

Test(facts, of_wanted_gradients) {
    static const char problem[] =
        "family=attention_backward score=\"s + slope[h] * (k - q) + bias[q, k]\" "
        "params=\"slope: float[heads], bias: float[len_q, len_kv]\" wants=\"dq, d_slope, d_bias\"";
    struct diag diag = {0};
    struct expr_slot fact[FACT_COUNT];
    char reason[FACT_REASON];
    struct knobs knobs = knobs_default();
    const struct input input = {"problem", problem, strlen(problem)};
    cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag), "%s",
              text_string(&diag.text));
    cr_assert(facts_find(&knobs, fact, reason), "%s", reason);
    cr_expect(fact[FACT_wants_dq].value == 1 && fact[FACT_wants_dk].value == 0 && fact[FACT_wants_dv].value == 0);
    cr_expect_eq(fact[FACT_wants_d_params].value, 2);
    cr_expect_eq(fact[FACT_head_reads].value, 1, "the slopes are the same for all pairs of a head");
    cr_expect_eq(fact[FACT_pair_reads].value, 1, "the bias is not");
    diag_free(&diag);
}

Test(facts, of_elements_that_pairs_share) {
    static const struct {
        const char *score;
        int elements;
    } cases[] = {{"s + x[h, q, k]", pair_elements_elements_of_head},
                 {"s + x[q, h, k]", pair_elements_elements_of_head},
                 {"s + x[b, q, k]", pair_elements_shared_elements},
                 {"s + x[h, k, q]", pair_elements_shared_elements}, /* not in rows of keys */
                 {"s + x[hk, q, k]", pair_elements_shared_elements},
                 {"s + x[h, q // 2, k]", pair_elements_shared_elements},
                 {"s + 2 * x[h, q, k]", pair_elements_shared_elements}, /* its gradient is not that of the score */
                 {"s + x[h, q, k] + x[h, q, k + 1]", pair_elements_shared_elements}};
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const bool last = i == sizeof cases / sizeof *cases;
        char problem[200];
        struct diag diag = {0};
        struct expr_slot fact[FACT_COUNT];
        char reason[FACT_REASON];
        struct knobs knobs = knobs_default();
        snprintf(problem, sizeof problem,
                 "family=attention_backward score=\"%s\" params=\"x: float[%s]\" wants=\"d_x\"",
                 last ? "s + x[b, h, q, k]" : cases[i].score, last ? "9, 9, 9, 9" : "9, 9, 9");
        const struct input input = {"problem", problem, strlen(problem)};
        cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag), "%s",
                  text_string(&diag.text));
        cr_assert(facts_find(&knobs, fact, reason), "%s", reason);
        cr_expect_eq(fact[FACT_pair_elements].value, last ? pair_elements_elements_of_batch : cases[i].elements, "%s",
                     problem);
        diag_free(&diag);
    }
}

Test(facts, of_a_mask_that_is_a_window) {
    static const struct {
        const char *mask;
        int window;
    } cases[] = {{"k <= q and q - k < n", 1},
                 {"abs(q - k) <= n", 1},
                 {"k + n >= q", 1},
                 {"k <= q + n", 0},
                 {"k <= q or k < n", 0},
                 {"k >= n", 0},
                 {"k <= q and (q - k < n or k < 4)", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[160];
        struct diag diag = {0};
        struct expr_slot fact[FACT_COUNT];
        char reason[FACT_REASON];
        struct knobs knobs = knobs_default();
        snprintf(problem, sizeof problem, "family=attention_forward mask=\"%s\" params=\"n: int\"", cases[i].mask);
        const struct input input = {"problem", problem, strlen(problem)};
        cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag), "%s",
                  text_string(&diag.text));
        cr_assert(facts_find(&knobs, fact, reason), "%s", reason);
        cr_expect_eq(fact[FACT_mask_window].value, cases[i].window, "%s", cases[i].mask);
        diag_free(&diag);
    }
}

Test(facts, of_a_score_that_adds_to_s) {
    static const struct {
        const char *score;
        int adds;
    } cases[] = {{"s + slope * (k - q)", 1}, {"slope - (slope - s)", 1},
                 {"2 * s + slope", 0},       {"s if k < q else s + slope", 1},
                 {"s * slope + s", 0},       {"slope * tanh(s / slope)", 0},
                 {"slope - s", 0},           {"max(s, slope)", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[160];
        struct diag diag = {0};
        struct expr_slot fact[FACT_COUNT];
        char reason[FACT_REASON];
        struct knobs knobs = knobs_default();
        snprintf(problem, sizeof problem, "family=attention_backward score=\"%s\" params=\"slope: float\"",
                 cases[i].score);
        const struct input input = {"problem", problem, strlen(problem)};
        cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag), "%s",
                  text_string(&diag.text));
        cr_assert(facts_find(&knobs, fact, reason), "%s", reason);
        cr_expect_eq(fact[FACT_score_adds].value, cases[i].adds, "%s", cases[i].score);
        diag_free(&diag);
    }
}
