/* Tolerances must be wide enough for honest fp32 arithmetic and too narrow for anything less. */
#include "tolerance.h"
#include "helper_formula.h"
#include "score_error.h"
#include "tolerance_backward.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, LEN_Q = 9, LEN_KV = 150, DIM = 64, ROWS = HEADS * LEN_Q };

static float normal(unsigned *state) { /* near enough: a sum of twelve uniform numbers */
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) * 0x1p-24f;
    }
    return sum;
}

static float cut(float x, int bits) { /* keeps this many bits of the significand: 24 all, 11 as TF32 does */
    unsigned u;
    memcpy(&u, &x, sizeof u);
    u &= ~0u << (24 - bits);
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Computes honest attention in float, one key at a time, with operands cut to `bits` bits. */
static void attend(const struct oracle_attention *p, int bits, int weight_bits, float *o, float *lse) {
    for (int64_t row = 0; row < ROWS; row++) {
        const float *k = p->k + row / LEN_Q * LEN_KV * DIM, *v = p->v + row / LEN_Q * LEN_KV * DIM;
        float max = -INFINITY, sum = 0, acc[DIM] = {0};
        for (int j = 0; j < LEN_KV; j++) {
            float dot = 0;
            for (int d = 0; d < DIM; d++)
                dot = fmaf(cut(p->q[row * DIM + d], bits), cut(k[j * DIM + d], bits), dot);
            float score = (float)p->scale * dot, next = fmaxf(max, score);
            float keep = expf(max - next), weight = expf(score - next);
            sum = sum * keep + weight;
            for (int d = 0; d < DIM; d++)
                acc[d] = fmaf(cut(weight, weight_bits), cut(v[j * DIM + d], bits), acc[d] * keep);
            max = next;
        }
        for (int d = 0; d < DIM; d++)
            o[row * DIM + d] = acc[d] / sum;
        lse[row] = max + logf(sum);
    }
}

static int count_wrong(int bits, int weight_bits, enum tolerance_type weights) {
    static float q[ROWS * DIM], k[HEADS * LEN_KV * DIM], v[HEADS * LEN_KV * DIM], found[ROWS * DIM], found_lse[ROWS];
    static double o[ROWS * DIM], lse[ROWS], o_tolerance[ROWS * DIM], lse_tolerance[ROWS];
    unsigned seed = 7;
    for (int i = 0; i < ROWS * DIM; i++)
        q[i] = normal(&seed);
    for (int i = 0; i < HEADS * LEN_KV * DIM; i++) {
        k[i] = normal(&seed);
        v[i] = normal(&seed);
    }
    struct oracle_attention p = {q, k, v, 1, HEADS, HEADS, LEN_Q, LEN_KV, DIM, DIM, 0.125, .causal = false};
    cr_assert(oracle_attention(&p, o, lse));
    cr_assert(tolerance_attention(&p, weights, TOLERANCE_FP32, o, lse, o_tolerance, lse_tolerance));
    attend(&p, bits, weight_bits, found, found_lse);
    int wrong = 0;
    for (int i = 0; i < ROWS * DIM; i++)
        wrong += !tolerance_accepts(TOLERANCE_FP32, o[i], (double)found[i], o_tolerance[i]);
    for (int i = 0; i < ROWS; i++)
        wrong += !tolerance_accepts(TOLERANCE_FP32, lse[i], (double)found_lse[i], lse_tolerance[i]);
    return wrong;
}

Test(tolerance, honest_fp32_is_accepted) { cr_assert_eq(count_wrong(24, 24, TOLERANCE_FP32), 0); }

Test(tolerance, less_than_fp32_is_refused) {
    cr_assert_gt(count_wrong(11, 11, TOLERANCE_FP32), ROWS * DIM / 2);
    cr_assert_gt(count_wrong(16, 16, TOLERANCE_FP32), 0);
}

Test(tolerance, weights_of_16_bits_are_accepted_where_they_are_announced) {
    cr_assert_gt(count_wrong(24, 11, TOLERANCE_FP32), 0);
    cr_assert_eq(count_wrong(24, 12, TOLERANCE_FP16), 0); /* cut, not rounded: one bit more for the same error */
    cr_assert_eq(count_wrong(24, 9, TOLERANCE_BF16), 0);
    cr_assert_gt(count_wrong(24, 7, TOLERANCE_FP16), 0);
    cr_assert_gt(count_wrong(11, 24, TOLERANCE_FP16), 0); /* Q, K and V are still exact */
}

/* Operands cut to twice the error of two parts of 11 bits, and to the error of one such part that is rounded. */
Test(tolerance, products_in_tf32_are_accepted_where_they_are_announced) {
    cr_assert_eq(count_wrong(22, 22, TOLERANCE_TF32X3), 0);
    cr_assert_gt(count_wrong(11, 11, TOLERANCE_TF32X3), 0); /* one part only */
    cr_assert_eq(count_wrong(12, 12, TOLERANCE_TF32), 0);
    cr_assert_gt(count_wrong(8, 8, TOLERANCE_TF32), 0);
}

/* --- scores that are expressions ---------------------------------------------------------------------------------- */

static struct formula *parse_score(const char *text, const struct formula_scope *scope) {
    struct formula *score = formula_fixture_parse(FORMULA_SCORE, text, scope, true);
    cr_assert_not_null(score);
    return score;
}

/* As many roundings of fp32 as there are steps, and no more: `most` is their sum by hand, in units of 2^-24. */
Test(tolerance, the_error_of_a_score_is_that_of_its_steps) {
    static const struct {
        const char *text;
        double s, error_of_s; /* in units */
        double least, most;
    } cases[] = {
        {"s", 3, 0, 0, 0},
        {"s", 3, 7, 7, 7},
        {"s * 3.5", 2, 0, 7, 7.01},
        {"s * 3.5", 2, 2, 14, 14.01},
        {"s + 0.25", 2, 0, 2.25, 2.26},
        {"s * 3.5 + 1.0", 2, 0, 15, 15.01},
        {"s / 4.0", 8, 1, 4.25, 4.27},      /* 2 roundings, as a reciprocal and a product */
        {"exp(s)", 0, 0, 4, 4.01},          /* 2 ulp */
        {"tanh(s)", 0.5, 0, 1.84, 1.86},    /* 4 units of 0.462 */
        {"min(s, 5.0)", 2, 3, 3, 3},        /* no rounding */
        {"s * (k - q)", 2, 0, 10, 10.01},   /* the distance is exact */
        {"s if k < q else 0.0", 2, 3, 3, 3} /* the condition too */
    };
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    fixture.env.name[FORMULA_LEN_Q] = fixture.env.name[FORMULA_LEN_KV] = 10;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct formula *score = parse_score(cases[i].text, &scope);
        struct oracle_attention p = {
            .batch = 1, .heads = 1, .kv_heads = 1, .len_q = 10, .len_kv = 10, .score = score, .env = &fixture.env};
        double error = score_error(&p, 0, 0, 8, 3, cases[i].s, cases[i].error_of_s * 0x1p-24, false) * 0x1p24;
        cr_expect(error >= cases[i].least && error <= cases[i].most, "%s at %g: %g units, expected %g to %g",
                  cases[i].text, cases[i].s, error, cases[i].least, cases[i].most);
        formula_free(score);
    }
    formula_scope_free(&scope);
}

/* Some rows of a larger problem have the errors of their place in it. */
Test(tolerance, the_error_of_a_score_is_that_of_its_place) {
    static const char *const texts[] = {"s * (1 + b)", "s * (1 + h)", "s * (1 + hk)", "s * (k - q)"};
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct formula *score = parse_score(texts[i], &scope);
        struct oracle_attention whole = {
            .batch = 4, .heads = 8, .kv_heads = 4, .len_q = 30, .len_kv = 30, .score = score, .env = &fixture.env};
        struct oracle_attention part = whole;
        part.batch = part.heads = part.kv_heads = part.len_q = 1;
        part.from.batch = 3;
        part.from.head = 6;
        part.from.kv_head = 3;
        part.from.query = 20 - 29; /* as if the only query were the last one */
        double wanted = score_error(&whole, 3, 6, 20, 5, 2, 0, false);
        cr_expect_gt(wanted, 0);
        cr_expect_eq(score_error(&part, 0, 0, 0, 5, 2, 0, false), wanted, "%s", texts[i]);
        formula_free(score);
    }
    formula_scope_free(&scope);
}

/* One query and three keys. One key has an infinity, so that its product is infinite and its score a cap. */
static struct oracle_attention infinite_key(float infinity, struct formula *score, struct formula_fixture *fixture) {
    static const float q[] = {1, 2}, v[] = {1, 2, 3};
    static float k[6];
    memcpy(k, (float[]){1, 1, 2, infinity, 1, 2}, sizeof k);
    fixture->env.name[FORMULA_LEN_Q] = 1;
    fixture->env.name[FORMULA_LEN_KV] = 3;
    return (struct oracle_attention){.q = q,
                                     .k = k,
                                     .v = v,
                                     .batch = 1,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .len_q = 1,
                                     .len_kv = 3,
                                     .head_dim = 2,
                                     .head_dim_v = 1,
                                     .scale = 1,
                                     .score = score,
                                     .env = &fixture->env};
}

static const struct {
    const char *score;
    double least, most; /* the scores of infinities */
} limits[] = {
    {"softcap(30)", -30, 30},
    {"softcap(30) then s + 0.1 * (k - q)", -30.1, 29.9},
    {"softcap(2.5) then min(s, 2.0)", -2.5, 2},
    {"s + 0.1 * (k - q) then softcap(3)", -3, 3},
    {"sigmoid(s) * 3.0 - exp(-abs(s)) + 1.0 / s", 0, 3},
    {"max(min(s * 0.3, 7.0), -5.0)", -5, 7},
};

Test(tolerance, an_infinite_product_with_a_finite_score_is_exact) {
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    for (size_t i = 0; i < 2 * (sizeof limits / sizeof *limits); i++) {
        double o, lse, o_off, lse_off;
        float sign = i % 2 ? 1 : -1;
        struct formula *score = parse_score(limits[i / 2].score, &scope);
        struct oracle_attention p = infinite_key(sign * INFINITY, score, &fixture);
        double wanted = i % 2 ? limits[i / 2].most : limits[i / 2].least,
               found = oracle_score(&p, 0, 0, 0, 1, (double)sign * INFINITY);
        cr_expect(fabs(found - wanted) < 1e-6, "%s: %g, expected %g", limits[i / 2].score, found, wanted);
        for (int weights = TOLERANCE_FP32; weights <= TOLERANCE_BF16; weights++) {
            cr_assert(oracle_attention(&p, &o, &lse));
            cr_assert(
                tolerance_attention(&p, (enum tolerance_type)weights, TOLERANCE_FP32, &o, &lse, &o_off, &lse_off));
            cr_expect(o_off < 0.03 && lse_off < 1e-3, "%s: O may be off by %g, LSE by %g", limits[i / 2].score, o_off,
                      lse_off);
        }
        formula_free(score);
    }
    formula_scope_free(&scope);
}

/* dS is 0 where the derivative of the score is 0, and adds nothing to dQ even where K is infinite. */
Test(tolerance, gradients_by_an_infinite_key_are_bounded) {
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    for (int sign = -1; sign < 2; sign += 2) {
        struct formula *score = parse_score("softcap(3)", &scope), *derivative = formula_slope(score);
        struct oracle_attention p = infinite_key((float)sign * INFINITY, score, &fixture);
        double o, lse, dq[2], dk[6], dv[3], dq_off[2], dk_off[6], dv_off[3];
        const float d_o = 1;
        cr_assert(oracle_attention(&p, &o, &lse));
        const struct oracle_backward problem = {
            .forward = &p, .derivative = derivative, .o = &o, .lse = &lse, .d_o = &d_o};
        const struct oracle_gradients gradients = {.dq = dq, .dk = dk, .dv = dv},
                                      off = {.dq = dq_off, .dk = dk_off, .dv = dv_off};
        oracle_backward(&problem, &gradients);
        cr_assert(tolerance_backward(&problem, TOLERANCE_FP16, TOLERANCE_FP32, &gradients, &off));
        for (int i = 0; i < 2; i++)
            cr_expect(isfinite(dq[i]) && dq_off[i] < 1e-2, "dq[%d] is %g within %g", i, dq[i], dq_off[i]);
        for (int i = 0; i < 6; i++)
            cr_expect(isfinite(dk[i]) && dk_off[i] < 1e-2, "dk[%d] is %g within %g", i, dk[i], dk_off[i]);
        for (int i = 0; i < 3; i++)
            cr_expect(isfinite(dv[i]) && dv_off[i] < 1e-2, "dv[%d] is %g within %g", i, dv[i], dv_off[i]);
        formula_free(derivative);
        formula_free(score);
    }
    formula_scope_free(&scope);
}

Test(tolerance, softmax_bound_scales_with_the_answer) {
    const float x[] = {0, 0, -20, 1};
    double y[4], t[4];
    oracle_softmax(x, 1, 4, y);
    cr_assert(tolerance_softmax(x, 1, 4, TOLERANCE_FP32, y, t));
    for (int i = 0; i < 4; i++)
        cr_assert(t[i] > y[i] * 1e-7 && t[i] < y[i] * 1e-4, "element %d: %g of %g", i, t[i], y[i]);
    cr_assert(tolerance_softmax(x, 1, 4, TOLERANCE_BF16, y, t));
    cr_assert(t[3] > y[3] * 0x1p-8 && t[3] < y[3] * 0x1.1p-8);
}

Test(tolerance, a_part_without_weight_has_no_say) {
    const float o_parts[] = {1, NAN}, lse_parts[] = {3, -INFINITY};
    double o, lse, o_tolerance, lse_tolerance;
    oracle_merge(o_parts, lse_parts, 2, 1, 1, &o, &lse);
    cr_assert(tolerance_merge(o_parts, lse_parts, 2, 1, 1, TOLERANCE_FP32, &o, &lse, &o_tolerance, &lse_tolerance));
    cr_assert(o_tolerance < 1e-5 && lse_tolerance < 1e-5, "%g %g", o_tolerance, lse_tolerance);
    cr_assert(o_tolerance > 0 && lse_tolerance > 0);
}

Test(tolerance, special_values_must_match) {
    const struct {
        double expected, found, tolerance;
        bool right;
    } cases[] = {
        {NAN, NAN, 1, true},
        {NAN, 0, 1, false},
        {0, NAN, 1, false},
        {0, 0, NAN, true},
        {0, 1, NAN, false},
        {-INFINITY, -INFINITY, 0, true},
        {INFINITY, 1, 1, false},
        {1, INFINITY, 1, false},
        {-INFINITY, INFINITY, INFINITY, false},
        {65500, INFINITY, 40, true},
        {65500, -INFINITY, 40, false},
        {65000, INFINITY, 40, false},
        {1, 1.5, 0.5, true},
        {1, 1.5, 0.4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(tolerance_accepts(TOLERANCE_FP16, cases[i].expected, cases[i].found, cases[i].tolerance),
                     cases[i].right, "case %zu", i);
}
