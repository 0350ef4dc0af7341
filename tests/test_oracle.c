/* Everything else is judged by the oracle, so the oracle is judged by hand-computed cases and by invariants. */
#include "helper_evaluator.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static void assert_close(double found, double expected) {
    cr_assert(fabs(found - expected) <= 1e-12 * (1 + fabs(expected)), "expected %.17g, found %.17g", expected, found);
}

static float random_float(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

static void fill(float *values, int n, unsigned seed) {
    for (int i = 0; i < n; i++)
        values[i] = random_float(&seed);
}

Test(oracle, two_by_two_by_hand) {
    const float q[] = {1, 0, 0, 2}, k[] = {1, 0, 0, 1}, v[] = {10, 20, 30, 40};
    double o[4], lse[2];
    struct oracle_attention p = {q, k, v, 1, 1, 1, 2, 2, 2, 2, 0.5, .causal = false};
    cr_assert(oracle_attention(&p, o, lse));
    double a = 1 / (1 + exp(-0.5)), b = 1 / (1 + exp(1)); /* weight of key 0 for either query */
    assert_close(o[0], 10 * a + 30 * (1 - a));
    assert_close(o[1], 20 * a + 40 * (1 - a));
    assert_close(o[2], 10 * b + 30 * (1 - b));
    assert_close(o[3], 20 * b + 40 * (1 - b));
    assert_close(lse[0], log(exp(0.5) + 1));
    assert_close(lse[1], log(1 + exp(1)));
}

Test(oracle, equal_keys_give_the_mean_of_the_values) {
    enum { N = 7, D = 3 };
    float q[D], k[N * D], v[N * D];
    fill(q, D, 1);
    fill(v, N * D, 2);
    for (int i = 0; i < N * D; i++)
        k[i] = (float)(i % D);
    double o[D], lse;
    struct oracle_attention p = {q, k, v, 1, 1, 1, 1, N, D, D, 1, .causal = false};
    cr_assert(oracle_attention(&p, o, &lse));
    for (int d = 0; d < D; d++) {
        double mean = 0;
        for (int i = 0; i < N; i++)
            mean += (double)v[i * D + d] / N;
        assert_close(o[d], mean);
    }
}

Test(oracle, causal_is_aligned_bottom_right) {
    enum { NQ = 2, NK = 4 };
    float q[NQ] = {1, 1}, k[NK] = {0, 0, 0, 0}, v[NK] = {1, 2, 4, 8};
    double o[NQ], lse[NQ];
    struct oracle_attention p = {q, k, v, 1, 1, 1, NQ, NK, 1, 1, 1, .causal = true};
    cr_assert(oracle_attention(&p, o, lse));
    assert_close(o[0], (1 + 2 + 4) / 3.0); /* query 0 sees keys 0 to 2 */
    assert_close(o[1], (1 + 2 + 4 + 8) / 4.0);
    assert_close(lse[0], log(3));
}

Test(oracle, rows_that_see_no_key_are_zero_and_minus_infinity) {
    float q[3] = {1, 1, 1}, k[1] = {1}, v[1] = {5};
    double o[3], lse[3];
    struct oracle_attention p = {q, k, v, 1, 1, 1, 3, 1, 1, 1, 1, .causal = true};
    cr_assert(oracle_attention(&p, o, lse));
    for (int i = 0; i < 2; i++)
        cr_assert(o[i] == 0 && lse[i] == -INFINITY);
    assert_close(o[2], 5);
    p.len_kv = 0;
    p.causal = false;
    cr_assert(oracle_attention(&p, o, lse));
    for (int i = 0; i < 3; i++)
        cr_assert(o[i] == 0 && lse[i] == -INFINITY);
}

Test(oracle, grouped_heads_read_their_own_key_head) {
    float q[4] = {0, 0, 0, 0}, k[2] = {0, 0}, v[2] = {3, 7}; /* 4 query heads, 2 K/V heads, one query, one key */
    double o[4], lse[4];
    struct oracle_attention p = {q, k, v, 1, 4, 2, 1, 1, 1, 1, 1, .causal = false};
    cr_assert(oracle_attention(&p, o, lse));
    cr_assert(o[0] == 3 && o[1] == 3 && o[2] == 7 && o[3] == 7);
}

Test(oracle, a_nan_reaches_exactly_the_rows_that_see_it) {
    float q[2] = {1, 1}, k[2] = {1, NAN}, v[2] = {1, 2};
    double o[2], lse[2];
    struct oracle_attention p = {q, k, v, 1, 1, 1, 2, 2, 1, 1, 1, .causal = true};
    cr_assert(oracle_attention(&p, o, lse));
    assert_close(o[0], 1);
    cr_assert(isnan(o[1]) && isnan(lse[1]));
}

Test(oracle, softmax_rows_sum_to_one_and_do_not_overflow) {
    enum { N = 5 };
    const float x[2 * N] = {1000, 999, -1000, 0, 1000, -INFINITY, 0, 1, 2, 3};
    double y[2 * N];
    oracle_softmax(x, 2, N, y);
    for (int r = 0; r < 2; r++) {
        double sum = 0;
        for (int c = 0; c < N; c++)
            sum += y[r * N + c];
        assert_close(sum, 1);
    }
    assert_close(y[0], 1 / (2 + exp(-1)));
    cr_assert(y[N] == 0);
}

/* --- masks and scores that are expressions ------------------------------------------------------------------------ */

/* fp32 constants are folded in fp32, so reals may differ by a few roundings. */
static bool agree(double found, double wanted) {
    if (isnan(found) || isnan(wanted) || isinf(wanted))
        return (isnan(found) && isnan(wanted)) || found == wanted;
    return fabs(found - wanted) <= 1e-5 * (1 + fabs(wanted));
}

/* The oracle and the kernels read one tree; the evaluator reads the text. Returns how many pairs of query and
   key were compared. */
static int compare_with_text(enum formula_flavor flavor, unsigned number, const struct formula_scope *scope) {
    unsigned seed = 31 * number + 5;
    struct text text = {0};
    int compared = 0;
    formula_draw(flavor, 1 + (int)(number % 4), &seed, &text);
    bool score = flavor == FLAVOR_SCORE;
    struct formula *formula =
        formula_fixture_parse(score ? FORMULA_SCORE : FORMULA_MASK, text_string(&text), scope, false);
    for (int round = 0; formula && round < 40; round++) {
        struct formula_fixture fixture;
        formula_fixture_draw(&fixture, scope, &seed);
        int64_t *name = fixture.env.name;
        struct oracle_attention p = {.batch = name[FORMULA_BATCH],
                                     .heads = name[FORMULA_HEADS],
                                     .kv_heads = name[FORMULA_KV_HEADS],
                                     .len_q = name[FORMULA_LEN_Q],
                                     .len_kv = name[FORMULA_LEN_KV],
                                     .mask = score ? NULL : formula,
                                     .score = score ? formula : NULL,
                                     .env = &fixture.env};
        int64_t b = name[FORMULA_B], h = name[FORMULA_H], query = formula_random(&seed, (unsigned)p.len_q),
                key = formula_random(&seed, (unsigned)p.len_kv);
        double s = 0.25 * ((int)formula_random(&seed, 64) - 32);
        double found = score ? oracle_score(&p, b, h, query, key, s) : oracle_sees(&p, b, h, query, key);
        struct evaluated wanted;
        name[FORMULA_Q] = query + p.len_kv - p.len_q;
        name[FORMULA_K] = key;
        fixture.env.score = s;
        cr_assert(evaluate_text(text_string(&text), &fixture, &wanted), "%s cannot be read", text_string(&text));
        double value = wanted.type == FORMULA_REAL ? wanted.real : (double)wanted.integer;
        cr_assert(agree(found, value), "%s at q %d, k %d, s %g: the oracle has %.9g, the text says %.9g",
                  text_string(&text), (int)name[FORMULA_Q], (int)key, s, found, value);
        compared++;
    }
    formula_free(formula);
    text_free(&text);
    return compared;
}

Test(oracle, random_formulas_mean_what_their_text_says) {
    static const enum formula_flavor flavors[] = {FLAVOR_MASK, FLAVOR_AFFINE, FLAVOR_SCORE};
    struct formula_scope scope;
    int compared = 0;
    formula_fixture_scope(&scope);
    for (unsigned i = 0; i < 6000; i++)
        compared += compare_with_text(flavors[i % 3], i, &scope);
    cr_assert_gt(compared, 150000, "%d", compared);
    formula_scope_free(&scope);
}

Test(oracle, merging_parts_gives_the_whole) {
    enum { NQ = 3, NK = 10, D = 4, PARTS = 3 };
    static const int begin[PARTS + 1] = {0, 4, 4, NK}; /* the middle part is empty */
    float q[NQ * D], k[NK * D], v[NK * D], o_parts[PARTS * NQ * D], lse_parts[PARTS * NQ];
    fill(q, NQ * D, 1);
    fill(k, NK * D, 2);
    fill(v, NK * D, 3);
    double o[NQ * D], lse[NQ], whole_o[NQ * D], whole_lse[NQ];
    for (int part = 0; part < PARTS; part++) {
        int at = begin[part], n = begin[part + 1] - at;
        struct oracle_attention p = {q, k + at * D, v + at * D, 1, 1, 1, NQ, n, D, D, 1, .causal = false};
        cr_assert(oracle_attention(&p, o, lse));
        for (int i = 0; i < NQ * D; i++)
            o_parts[part * NQ * D + i] = n ? (float)o[i] : NAN; /* an empty part adds nothing, whatever it holds */
        for (int i = 0; i < NQ; i++)
            lse_parts[part * NQ + i] = (float)lse[i];
    }
    struct oracle_attention p = {q, k, v, 1, 1, 1, NQ, NK, D, D, 1, .causal = false};
    cr_assert(oracle_attention(&p, whole_o, whole_lse));
    oracle_merge(o_parts, lse_parts, PARTS, NQ, D, o, lse);
    for (int i = 0; i < NQ * D; i++)
        cr_assert(fabs(o[i] - whole_o[i]) < 1e-6, "o[%d]: expected %g, found %g", i, whole_o[i], o[i]);
    for (int i = 0; i < NQ; i++)
        cr_assert(fabs(lse[i] - whole_lse[i]) < 1e-6);
    oracle_merge(o_parts, lse_parts, 0, NQ, D, o, lse);
    for (int i = 0; i < NQ; i++)
        cr_assert(o[i * D] == 0 && lse[i] == -INFINITY);
}
