#include "oracle.h"

#include <math.h>
#include <stdlib.h>

/* Turns n scores into weights in place, and returns log(sum(exp(score))). The weights sum to 1, or to less with a sink
   (-INFINITY = none). */
static double softmax_row(double *score, int64_t n, double sink) {
    double max = sink, sum = 0;
    for (int64_t i = 0; i < n; i++) /* pass 1: maximum (NaN propagates) */
        if (score[i] > max || isnan(score[i]))
            max = score[i];
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++)
            score[i] = 0;
        return -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) /* pass 2: denominator */
        sum += score[i] = exp(score[i] - max);
    sum += exp(sink - max);
    for (int64_t i = 0; i < n; i++) /* pass 3: weights */
        score[i] /= sum;
    return max + log(sum);
}

int64_t oracle_len_q(const struct oracle_attention *p, int64_t b) { return p->own_len_q ? p->own_len_q[b] : p->len_q; }
int64_t oracle_len_kv(const struct oracle_attention *p, int64_t b) {
    return p->own_len_kv ? p->own_len_kv[b] : p->len_kv;
}

static int64_t position_of(const struct oracle_attention *p, int64_t b, int64_t query) {
    return p->from.query + query + oracle_len_kv(p, b) - oracle_len_q(p, b);
}

struct formula_env oracle_env(const struct oracle_attention *p, int64_t b, int64_t h, int64_t query, int64_t key) {
    struct formula_env env = *p->env;
    env.name[FORMULA_B] = p->from.batch + b;
    env.name[FORMULA_H] = p->from.head + h;
    env.name[FORMULA_HK] = p->from.kv_head + h / (p->heads / p->kv_heads);
    env.name[FORMULA_Q] = position_of(p, b, query);
    env.name[FORMULA_K] = key;
    if (p->own_len_q)
        env.name[FORMULA_LEN_Q] = oracle_len_q(p, b);
    if (p->own_len_kv)
        env.name[FORMULA_LEN_KV] = oracle_len_kv(p, b);
    return env;
}

bool oracle_sees(const struct oracle_attention *p, int64_t b, int64_t h, int64_t query, int64_t key) {
    if (!p->mask)
        return !p->causal || key <= position_of(p, b, query);
    struct formula_env env = oracle_env(p, b, h, query, key);
    return formula_mask(p->mask, &env);
}

double oracle_score(const struct oracle_attention *p, int64_t b, int64_t h, int64_t query, int64_t key, double s) {
    if (!p->score)
        return s;
    struct formula_env env = oracle_env(p, b, h, query, key);
    env.score = s;
    return formula_score(p->score, &env);
}

double oracle_scale(const struct oracle_attention *p, const float *scale, int64_t b, int64_t h, int64_t j) {
    return scale ? (double)scale[(b * p->kv_heads + h / (p->heads / p->kv_heads)) * p->len_kv + j] : 1;
}

double oracle_keep(const struct oracle_attention *p, int64_t b, int64_t h, int64_t query, int64_t key) {
    return oracle_dropout_factor(p->dropout, (p->from.batch + b) * p->heads + p->from.head + h, p->from.query + query,
                                 key);
}

bool oracle_attention(const struct oracle_attention *p, double *o, double *lse) {
    size_t room = (size_t)(p->len_kv > 0 ? p->len_kv : 1);
    double *score = malloc(sizeof *score * room);
    int64_t *key = malloc(sizeof *key * room);
    int64_t group = p->kv_heads > 0 ? p->heads / p->kv_heads : 1, rows = p->batch * p->heads * p->len_q;
    for (int64_t row = 0; score && key && row < rows; row++) {
        int64_t i = row % p->len_q, h = row / p->len_q % p->heads, b = row / p->len_q / p->heads, seen = 0;
        const float *k = p->k + (b * p->kv_heads + h / group) * p->len_kv * p->head_dim;
        const float *v = p->v + (b * p->kv_heads + h / group) * p->len_kv * p->head_dim_v;
        bool there = i < oracle_len_q(p, b);
        for (int64_t j = 0; there && j < oracle_len_kv(p, b); j++) {
            if (!oracle_sees(p, b, h, i, j))
                continue;
            double dot = 0;
            for (int64_t d = 0; d < p->head_dim; d++)
                dot += (double)p->q[row * p->head_dim + d] * (double)k[j * p->head_dim + d];
            dot *= oracle_scale(p, p->k_scale, b, h, j);
            score[seen] = oracle_score(p, b, h, i, j, p->scale * dot);
            key[seen++] = j;
        }
        lse[row] = softmax_row(score, seen, p->sinks && there ? p->sinks[h] : -INFINITY);
        for (int64_t j = 0; j < seen; j++)
            score[j] *= oracle_keep(p, b, h, i, key[j]);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            double sum = 0;
            for (int64_t j = 0; j < seen; j++)
                sum += score[j] * oracle_scale(p, p->v_scale, b, h, key[j]) * (double)v[key[j] * p->head_dim_v + d];
            o[row * p->head_dim_v + d] = sum;
        }
    }
    bool done = score && key;
    free(score);
    free(key);
    return done;
}

void oracle_softmax(const float *x, int64_t rows, int64_t cols, double *y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = x[r * cols + c];
        softmax_row(y + r * cols, cols, -INFINITY);
    }
}

void oracle_rope_angle(const struct oracle_rope *rope, int64_t position, int64_t i, double *cosine, double *sine) {
    double angle = (double)position * pow(rope->base, -2.0 * (double)i / (double)rope->dim);
    *cosine = rope->cosine ? (double)rope->cosine[position * (rope->dim / 2) + i] : cos(angle);
    *sine = rope->cosine ? (double)rope->sine[position * (rope->dim / 2) + i] : sin(angle);
}

void oracle_rope_pair(const struct oracle_rope *rope, int64_t i, int64_t *first, int64_t *second) {
    *first = rope->halves ? i : 2 * i;
    *second = rope->halves ? i + rope->dim / 2 : 2 * i + 1;
}

void oracle_rope_row(const struct oracle_rope *rope, int64_t position, const float *x, int64_t head_dim, double *y) {
    for (int64_t d = 0; d < head_dim; d++)
        y[d] = (double)x[d];
    for (int64_t i = 0; i < rope->dim / 2; i++) {
        double cosine, sine;
        int64_t a, b;
        oracle_rope_angle(rope, position, i, &cosine, &sine);
        oracle_rope_pair(rope, i, &a, &b);
        y[a] = (double)x[a] * cosine - (double)x[b] * sine;
        y[b] = (double)x[b] * cosine + (double)x[a] * sine;
    }
}

void oracle_merge(const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v,
                  double *o, double *lse) {
    for (int64_t r = 0; r < rows; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < parts; i++) {
            double part = lse_parts[i * rows + r];
            if (part > max || isnan(part))
                max = part;
        }
        for (int64_t d = 0; d < head_dim_v; d++)
            o[r * head_dim_v + d] = 0;
        lse[r] = -INFINITY;
        if (max == -INFINITY)
            continue;
        for (int64_t i = 0; i < parts; i++)
            sum += exp(lse_parts[i * rows + r] - max);
        lse[r] = max + log(sum);
        for (int64_t i = 0; i < parts; i++) {
            double weight = exp(lse_parts[i * rows + r] - max) / sum;
            for (int64_t d = 0; weight != 0 && d < head_dim_v; d++) /* an empty part adds nothing, whatever it holds */
                o[r * head_dim_v + d] += weight * (double)o_parts[(i * rows + r) * head_dim_v + d];
        }
    }
}
