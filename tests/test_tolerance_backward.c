/* The bounds of gradients must be wide enough for honest fp32 arithmetic and too narrow for anything less. */
#include "tolerance_backward.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, LEN_Q = 40, LEN_KV = 90, DIM = 32, Q = HEADS * LEN_Q * DIM, K = LEN_KV * DIM, ROWS = HEADS * LEN_Q };

static float normal(unsigned *state) { /* near enough: a sum of twelve uniform numbers */
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) * 0x1p-24f;
    }
    return sum;
}

static float cut(float x, int bits) { /* keeps this many bits of the significand */
    unsigned u;
    memcpy(&u, &x, sizeof u);
    u &= ~0u << (24 - bits);
    memcpy(&x, &u, sizeof x);
    return x;
}

static float product(const float *a, const float *b, int bits) {
    float sum = 0;
    for (int d = 0; d < DIM; d++)
        sum = fmaf(cut(a[d], bits), cut(b[d], bits), sum);
    return sum;
}

struct gradients {
    float dq[Q], dk[K], dv[K];
};

/* Computes honest gradients in float, with operands of the first two products cut to `bits` bits, and P and dS to
   `weight_bits`. P is cut before dS is computed from it where the problem says so. */
static void differentiate(const struct oracle_backward *p, int bits, int weight_bits, struct gradients *to) {
    const struct oracle_attention *f = p->forward;
    for (int row = 0; row < ROWS; row++) {
        float dot = 0;
        for (int d = 0; d < DIM; d++)
            dot = fmaf(p->d_o[row * DIM + d], (float)p->o[row * DIM + d], dot);
        for (int key = 0; key < LEN_KV; key++) {
            const float *k = f->k + key * DIM, *v = f->v + key * DIM;
            float s = (float)f->scale * product(f->q + row * DIM, k, bits);
            float weight = expf(s - (float)p->lse[row]);
            float kept = cut(weight, weight_bits);
            float d_s = (p->d_s_from_rounded ? kept : weight) * (product(p->d_o + row * DIM, v, bits) - dot);
            d_s = cut(d_s, weight_bits);
            for (int d = 0; d < DIM; d++) {
                to->dq[row * DIM + d] = fmaf(d_s, k[d], to->dq[row * DIM + d]);
                to->dk[key * DIM + d] = fmaf(d_s, f->q[row * DIM + d], to->dk[key * DIM + d]);
                to->dv[key * DIM + d] = fmaf(kept, p->d_o[row * DIM + d], to->dv[key * DIM + d]);
            }
        }
    }
    for (int i = 0; i < Q; i++)
        to->dq[i] *= (float)f->scale;
    for (int i = 0; i < K; i++)
        to->dk[i] *= (float)f->scale;
}

static int count(const double *expected, const double *bound, const float *found, int size) {
    int wrong = 0;
    for (int i = 0; i < size; i++)
        wrong += !tolerance_accepts(TOLERANCE_FP32, expected[i], (double)found[i], bound[i]);
    return wrong;
}

/* `first`: P is rounded before dS is computed from it, and the bound accounts for that. */
static int count_wrong_of(int bits, int weight_bits, enum tolerance_type weights, bool first) {
    static float q[Q], k[K], v[K], d_o[Q];
    static double o[Q], lse[ROWS], dq[Q], dk[K], dv[K], dq_bound[Q], dk_bound[K], dv_bound[K];
    static struct gradients found;
    unsigned seed = 7;
    for (int i = 0; i < Q; i++) {
        q[i] = normal(&seed);
        d_o[i] = normal(&seed);
    }
    for (int i = 0; i < K; i++) {
        k[i] = normal(&seed);
        v[i] = normal(&seed);
    }
    struct oracle_attention f = {q, k, v, 1, HEADS, 1, LEN_Q, LEN_KV, DIM, DIM, 0.25, .causal = false};
    struct oracle_backward p = {.forward = &f, .o = o, .lse = lse, .d_o = d_o, .d_s_from_rounded = first};
    const struct oracle_gradients expected = {.dq = dq, .dk = dk, .dv = dv},
                                  bound = {.dq = dq_bound, .dk = dk_bound, .dv = dv_bound};
    cr_assert(oracle_attention(&f, o, lse));
    for (int i = 0; i < Q; i++)
        o[i] = (double)(float)o[i];
    for (int i = 0; i < ROWS; i++)
        lse[i] = (double)(float)lse[i];
    oracle_backward(&p, &expected);
    cr_assert(tolerance_backward(&p, weights, TOLERANCE_FP32, &expected, &bound));
    memset(&found, 0, sizeof found);
    differentiate(&p, bits, weight_bits, &found);
    return count(dq, dq_bound, found.dq, Q) + count(dk, dk_bound, found.dk, K) + count(dv, dv_bound, found.dv, K);
}

static int count_wrong(int bits, int weight_bits, enum tolerance_type weights) {
    return count_wrong_of(bits, weight_bits, weights, false);
}

Test(tolerance_backward, honest_fp32_is_accepted) { cr_assert_eq(count_wrong(24, 24, TOLERANCE_FP32), 0); }

Test(tolerance_backward, less_than_fp32_is_refused) {
    cr_assert_gt(count_wrong(11, 11, TOLERANCE_FP32), Q / 2);
    cr_assert_gt(count_wrong(14, 24, TOLERANCE_FP32), 0);
    cr_assert_gt(count_wrong(24, 14, TOLERANCE_FP32), 0);
}

Test(tolerance_backward, operands_of_16_bits_are_accepted_where_they_are_announced) {
    cr_assert_eq(count_wrong(24, 12, TOLERANCE_FP16), 0); /* cut, not rounded: one bit more for the same error */
    cr_assert_eq(count_wrong(24, 9, TOLERANCE_BF16), 0);
    cr_assert_gt(count_wrong(24, 7, TOLERANCE_FP16), 0);
    cr_assert_gt(count_wrong(9, 24, TOLERANCE_FP16), 0); /* Q, K, V and dO are still exact */
}

Test(tolerance_backward, weights_that_are_rounded_before_d_s_are_accepted) {
    cr_assert_eq(count_wrong_of(24, 12, TOLERANCE_FP16, true), 0);
    cr_assert_eq(count_wrong_of(24, 9, TOLERANCE_BF16, true), 0);
    cr_assert_gt(count_wrong_of(24, 7, TOLERANCE_FP16, true), 0);
}
