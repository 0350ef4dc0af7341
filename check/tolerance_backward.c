/* tolerance_backward: fp32 roundings, followed to first order through P, dS and the three products, and the roundings
   of tensor-core operands to 16 bits. In units of one rounding of fp32, UNIT, until the last step. */
#include "tolerance_backward.h"
#include "score_error.h"

#include <math.h>
#include <stdlib.h>

static const double UNIT = 0x1p-24;

/* A sum of products weight * value, and bounds of its error. */
struct sum {
    double size;    /* sum of the absolute values of its terms */
    double moved;   /* by the errors of the weights, in units */
    double rounded; /* by rounding the weights to 16 bits: worst case, and sum of squares */
    double squared;
    double terms;
};

struct term {
    double weight, error; /* absolute, in units */
    double rounding;      /* absolute */
    double before;        /* rounding of the value that it was computed from, independent of `rounding` */
};

static void add(struct sum *sum, struct term term, double value) {
    double share = term.rounding * fabs(value), before = term.before * fabs(value);
    sum->terms++;
    if (term.weight == 0 && term.error == 0) /* adds nothing, whatever the value */
        return;
    sum->size += fabs(term.weight * value);
    sum->moved += term.error * fabs(value);
    sum->rounded += share + before;
    sum->squared += share * share + before * before;
}

/* Bounds the error of a sum that is multiplied by `factor` at the end, and then rounded. */
static double bound(const struct sum *sum, double factor, enum tolerance_type output, double value) {
    const struct tolerance_rounding *type = &tolerance_roundings[output];
    double narrowing = fmin(sum->rounded, 6 * sqrt(sum->squared));
    double error = fabs(factor) * ((sum->moved + 6 * tolerance_growth(sum->terms) * sum->size) * UNIT + narrowing) +
                   fabs(value) * UNIT;
    return error + type->unit * (fabs(value) + error) + type->smallest;
}

static struct term term_of(double weight, double error, enum tolerance_type weights) {
    const struct tolerance_rounding *type = &tolerance_roundings[weights];
    return (struct term){weight, error, weights == TOLERANCE_FP32 ? 0 : type->unit * fabs(weight) + type->smallest, 0};
}

struct product {
    double value, size; /* the sum of its terms, and of their absolute values */
};

static struct product product_of(const float *a, const float *b, int64_t count) {
    struct product product = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        product.value += (double)a[i] * (double)b[i];
        product.size += fabs((double)a[i] * (double)b[i]);
    }
    return product;
}

struct bounds {
    const struct oracle_backward *p;
    enum tolerance_type weights;
    struct sum *dq, *dk, *dv, *d_sinks;  /* dq: of one row */
    struct sum *d_param[FORMULA_PARAMS]; /* null = not wanted */
};

/* D of a row and its error. */
struct of_row {
    double dot, error;
};

static struct of_row of_row(const struct oracle_backward *p, int64_t row) {
    int64_t columns = p->forward->head_dim_v;
    double d_lse = p->d_lse ? (double)p->d_lse[row] : 0, size = 0;
    struct of_row of = {-d_lse, 0};
    for (int64_t d = 0; d < columns; d++) {
        double term = (double)p->d_o[row * columns + d] * p->o[row * columns + d];
        of.dot += term;
        size += fabs(term);
    }
    of.error = tolerance_growth((double)columns) * size + fabs(d_lse) + fabs(of.dot);
    return of;
}

/* Relative error of e^(score - lse), in units: the score's own, two roundings of each operand, the difference, exp, products. */
static double weight_error(double error_of_score, double score, double lse) {
    return error_of_score + 2 * fabs(score) + 2 * fabs(lse) + 2 * fabs(score - lse) + 8;
}

/* Adds the share of a pair to the gradients of what its score reads: d_score, with its error and rounding, times a
   slope. */
static void add_reads(struct bounds *to, const struct formula_env *env, int64_t b, int64_t h, int64_t query,
                      int64_t key, double error_of_s, double d_score, double error) {
    const struct oracle_backward *p = to->p;
    double rounding = p->reads_from_rounded ? term_of(d_score, 0, to->weights).rounding : 0;
    for (int i = 0; p->reads && d_score != 0 && i < p->reads->count; i++) {
        const struct formula_read *read = &p->reads->read[i];
        double slope = formula_score(read->slope, env);
        double error_of_slope =
            derivative_error(p->forward, read->slope, b, h, query, key, env->score, error_of_s * UNIT) / UNIT;
        double of_share = fabs(slope) * error + fabs(d_score) * error_of_slope + fabs(slope * d_score);
        add(&to->d_param[read->param][oracle_place(p->scope, read, p->forward->env, env)],
            (struct term){slope * d_score, of_share, rounding * fabs(slope), 0}, 1);
    }
}

static void add_pair(struct bounds *to, int64_t row, int64_t key, int64_t kv, struct of_row of) {
    const struct oracle_backward *p = to->p;
    const struct oracle_attention *f = p->forward;
    int64_t query = row % f->len_q, h = row / f->len_q % f->heads, b = row / f->len_q / f->heads;
    const float *q = f->q + row * f->head_dim, *k = f->k + kv * f->head_dim, *v = f->v + kv * f->head_dim_v;
    const float *d_o = p->d_o + row * f->head_dim_v;
    struct product qk = product_of(q, k, f->head_dim), d_weight = product_of(d_o, v, f->head_dim_v);
    double s = f->scale * qk.value, lse = p->lse[row], score = oracle_score(f, b, h, query, key, s);
    double error_of_s = tolerance_growth((double)f->head_dim) * fabs(f->scale) * qk.size + fabs(s);
    double error_of_score =
        f->score ? score_error(f, b, h, query, key, s, error_of_s * UNIT, false) / UNIT : error_of_s;
    double slope = oracle_derivative(p, b, h, query, key, s), error_of_slope = 0;
    if (p->derivative)
        error_of_slope = derivative_error(f, p->derivative, b, h, query, key, s, error_of_s * UNIT) / UNIT;
    double weight = lse == -INFINITY ? 0 : exp(score - lse);
    double error_of_weight = weight * weight_error(error_of_score, score, lse) + 0x1p-126 / UNIT;
    double keep = oracle_keep(f, b, h, query, key); /* rounded, as is the product with it */
    double kept = keep * d_weight.value, before = kept - of.dot, d_score = weight * before;
    double error_of_before = keep * tolerance_growth((double)f->head_dim_v) * d_weight.size + of.error + fabs(before) +
                             (f->dropout ? 2 * fabs(kept) : 0);
    double error = weight * error_of_before + error_of_weight * fabs(before) + fabs(d_score);
    double error_of_d_s = fabs(slope) * error + fabs(d_score) * error_of_slope + fabs(slope * d_score);
    if (p->reads) {
        struct formula_env env = oracle_env(f, b, h, query, key);
        env.score = s;
        add_reads(to, &env, b, h, query, key, error_of_s, d_score, error);
    }
    struct term of_p = {0}, of_s = {0};
    if (weight > 0) {
        of_p = term_of(weight, error_of_weight + (f->dropout ? 2 * weight : 0), to->weights);
        of_s = term_of(slope * d_score, error_of_d_s, to->weights);
        if (p->d_s_from_rounded)
            of_s.before = fabs(slope * before) * of_p.rounding;
    }
    for (int64_t d = 0; d < f->head_dim; d++) {
        add(&to->dq[d], of_s, (double)k[d]);
        add(&to->dk[kv * f->head_dim + d], of_s, (double)q[d]);
    }
    for (int64_t d = 0; keep > 0 && d < f->head_dim_v; d++)
        add(&to->dv[kv * f->head_dim_v + d], of_p, keep * (double)d_o[d]);
}

static void add_sink(struct bounds *to, int64_t row, struct of_row of) {
    const struct oracle_attention *f = to->p->forward;
    int64_t h = row / f->len_q % f->heads;
    double lse = to->p->lse[row], weight = exp(f->sinks[h] - lse);
    if (weight > 0)
        add(&to->d_sinks[h], (struct term){weight, weight * weight_error(0, f->sinks[h], lse), 0, 0}, of.dot);
    to->d_sinks[h].moved += weight * of.error;
}

static void bound_all(const struct sum *sums, int64_t count, double factor, enum tolerance_type output,
                      const double *value, double *to) {
    for (int64_t i = 0; to && i < count; i++)
        to[i] = bound(&sums[i], factor, output, value[i]);
}

static void bound_rows(struct bounds *sums, enum tolerance_type output, const struct oracle_gradients *expected,
                       const struct oracle_gradients *to) {
    const struct oracle_backward *p = sums->p;
    const struct oracle_attention *f = p->forward;
    int64_t rows = f->batch * f->heads * f->len_q, group = f->kv_heads > 0 ? f->heads / f->kv_heads : 1;
    for (int64_t row = 0; row < rows; row++) {
        int64_t query = row % f->len_q, h = row / f->len_q % f->heads, b = row / f->len_q / f->heads;
        int64_t kv = (b * f->kv_heads + h / group) * f->len_kv;
        if (query >= oracle_len_q(f, b))
            continue;
        struct of_row of = of_row(p, row);
        for (int64_t d = 0; d < f->head_dim; d++)
            sums->dq[d] = (struct sum){0};
        for (int64_t key = 0; key < oracle_len_kv(f, b); key++)
            if (oracle_sees(f, b, h, query, key))
                add_pair(sums, row, key, kv + key, of);
        if (f->sinks && f->sinks[h] != -INFINITY)
            add_sink(sums, row, of);
        if (to->dq)
            bound_all(sums->dq, f->head_dim, f->scale, output, expected->dq + row * f->head_dim,
                      to->dq + row * f->head_dim);
    }
    int64_t rows_kv = f->batch * f->kv_heads * f->len_kv;
    bound_all(sums->dk, rows_kv * f->head_dim, f->scale, output, expected->dk, to->dk);
    bound_all(sums->dv, rows_kv * f->head_dim_v, 1, output, expected->dv, to->dv);
    if (f->sinks)
        bound_all(sums->d_sinks, f->heads, 1, TOLERANCE_FP32, expected->d_sinks, to->d_sinks);
    for (int i = 0; p->reads && i < p->scope->count; i++)
        if (sums->d_param[i])
            bound_all(sums->d_param[i], oracle_param_count(p->scope, i, f->env), 1, TOLERANCE_FP32,
                      expected->d_param[i], to->d_param[i]);
}

bool tolerance_backward(const struct oracle_backward *p, enum tolerance_type weights, enum tolerance_type output,
                        const struct oracle_gradients *expected, const struct oracle_gradients *to) {
    const struct oracle_attention *f = p->forward;
    size_t rows_kv = (size_t)(f->batch * f->kv_heads * f->len_kv) + 1;
    struct bounds sums = {.p = p,
                          .weights = weights,
                          .dq = calloc((size_t)f->head_dim, sizeof(struct sum)),
                          .dk = calloc(rows_kv * (size_t)f->head_dim, sizeof(struct sum)),
                          .dv = calloc(rows_kv * (size_t)f->head_dim_v, sizeof(struct sum)),
                          .d_sinks = calloc((size_t)f->heads, sizeof(struct sum))};
    bool done = sums.dq && sums.dk && sums.dv && sums.d_sinks;
    for (int i = 0; p->reads && i < p->scope->count; i++)
        if (to->d_param[i]) {
            sums.d_param[i] = calloc((size_t)oracle_param_count(p->scope, i, f->env) + 1, sizeof(struct sum));
            done &= sums.d_param[i] != NULL;
        }
    if (done)
        bound_rows(&sums, output, expected, to);
    free(sums.dq);
    free(sums.dk);
    free(sums.dv);
    free(sums.d_sinks);
    for (int i = 0; i < FORMULA_PARAMS; i++)
        free(sums.d_param[i]);
    return done;
}
