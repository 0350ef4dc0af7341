#include "oracle_backward.h"

#include <math.h>
#include <string.h>

static double dot(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

double oracle_derivative(const struct oracle_backward *p, int64_t b, int64_t h, int64_t query, int64_t key, double s) {
    if (!p->derivative)
        return 1;
    struct formula_env env = oracle_env(p->forward, b, h, query, key);
    env.score = s;
    return formula_score(p->derivative, &env);
}

int64_t oracle_param_count(const struct formula_scope *scope, int param, const struct formula_env *env) {
    int64_t count = 1;
    for (int d = 0; d < scope->param[param].dims; d++)
        count *= formula_dim(scope, param, d, env);
    return count;
}

int64_t oracle_place(const struct formula_scope *scope, const struct formula_read *read,
                     const struct formula_env *sizes, const struct formula_env *env) {
    int64_t place = 0;
    for (int d = 0; d < read->indices; d++)
        place = place * formula_dim(scope, read->param, d, sizes) + formula_integer(read->index[d], env);
    return place;
}

/* Adds the share of one pair to the gradients of the parameters that its score reads. */
static void add_reads(const struct oracle_backward *p, const struct formula_env *env, double d_score,
                      const struct oracle_gradients *to) {
    for (int i = 0; p->reads && d_score != 0 && i < p->reads->count; i++) {
        const struct formula_read *read = &p->reads->read[i];
        to->d_param[read->param][oracle_place(p->scope, read, p->forward->env, env)] +=
            d_score * formula_score(read->slope, env);
    }
}

/* Adds the share of one query. `kv`: row of its key 0 in k and v. */
static void add_row(const struct oracle_backward *p, int64_t row, int64_t kv, const struct oracle_gradients *to) {
    const struct oracle_attention *f = p->forward;
    int64_t query = row % f->len_q, h = row / f->len_q % f->heads, b = row / f->len_q / f->heads;
    const float *q = f->q + row * f->head_dim, *d_o = p->d_o + row * f->head_dim_v;
    double of_row = p->d_lse ? -(double)p->d_lse[row] : 0;
    for (int64_t d = 0; d < f->head_dim_v; d++)
        of_row += (double)d_o[d] * p->o[row * f->head_dim_v + d];
    for (int64_t j = 0; j < oracle_len_kv(f, b); j++) {
        if (!oracle_sees(f, b, h, query, j))
            continue;
        const float *k = f->k + (kv + j) * f->head_dim, *v = f->v + (kv + j) * f->head_dim_v;
        double s = f->scale * dot(q, k, f->head_dim), score = oracle_score(f, b, h, query, j, s);
        double weight = p->lse[row] == -INFINITY ? 0 : exp(score - p->lse[row]);
        double keep = oracle_keep(f, b, h, query, j), d_weight = keep == 0 ? 0 : keep * dot(d_o, v, f->head_dim_v);
        double d_score = weight == 0 ? 0 : weight * (d_weight - of_row);
        double d_s = weight == 0 ? 0 : d_score * oracle_derivative(p, b, h, query, j, s);
        if (p->reads) {
            struct formula_env env = oracle_env(f, b, h, query, j);
            env.score = s;
            add_reads(p, &env, d_score, to);
        }
        for (int64_t d = 0; to->dq && d_s != 0 && d < f->head_dim; d++)
            to->dq[row * f->head_dim + d] += f->scale * d_s * (double)k[d];
        for (int64_t d = 0; to->dk && d_s != 0 && d < f->head_dim; d++)
            to->dk[(kv + j) * f->head_dim + d] += f->scale * d_s * (double)q[d];
        double kept = keep == 0 ? 0 : weight * keep; /* a dropped weight is 0, whatever it was */
        for (int64_t d = 0; to->dv && kept != 0 && d < f->head_dim_v; d++)
            to->dv[(kv + j) * f->head_dim_v + d] += kept * (double)d_o[d];
    }
    if (to->d_sinks && f->sinks && f->sinks[h] != -INFINITY)
        to->d_sinks[h] -= exp(f->sinks[h] - p->lse[row]) * of_row;
}

static void zero(double *values, int64_t count) {
    if (values && count > 0)
        memset(values, 0, (size_t)count * sizeof *values);
}

void oracle_backward(const struct oracle_backward *p, const struct oracle_gradients *to) {
    const struct oracle_attention *f = p->forward;
    int64_t rows = f->batch * f->heads * f->len_q, group = f->kv_heads > 0 ? f->heads / f->kv_heads : 1;
    zero(to->dq, rows * f->head_dim);
    zero(to->dk, f->batch * f->kv_heads * f->len_kv * f->head_dim);
    zero(to->dv, f->batch * f->kv_heads * f->len_kv * f->head_dim_v);
    if (f->sinks)
        zero(to->d_sinks, f->heads);
    for (int i = 0; p->reads && i < p->scope->count; i++)
        if (to->d_param[i])
            zero(to->d_param[i], oracle_param_count(p->scope, i, f->env));
    for (int64_t row = 0; row < rows; row++) {
        int64_t h = row / f->len_q % f->heads, b = row / f->len_q / f->heads;
        if (row % f->len_q < oracle_len_q(f, b))
            add_row(p, row, (b * f->kv_heads + h / group) * f->len_kv, to);
    }
}
