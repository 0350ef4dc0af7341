#include "new_tokens.h"
#include "append_answer.h"
#include "tolerance.h"
#include "workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V }; /* inputs */

static const struct workload_input *input(const struct workload *w, const char *name) {
    for (int i = 0; i < w->inputs; i++)
        if (strcmp(w->input[i].name, name) == 0)
            return &w->input[i];
    return NULL;
}

static const struct workload_output *output(const struct workload *w, const char *name) {
    for (int i = 0; i < w->outputs; i++)
        if (strcmp(w->output[i].name, name) == 0)
            return &w->output[i];
    return NULL;
}

static int64_t len_q_of(const struct workload *w, int64_t b) { return w->lengths.len_q[b]; }

/* Position of new token i of a sequence; negative where the sequence has fewer keys than queries, and no place for
   it. */
static int64_t position_of(const struct workload *w, int64_t b, int64_t i) {
    return w->lengths.len_kv[b] - len_q_of(w, b) + i;
}

static void hide_rows(const struct workload *w, const struct workload_input *cache) {
    int64_t heads = cache->dim[DIM_HEAD], rows = cache->dim[DIM_ROW], columns = cache->dim[DIM_COLUMN];
    for (int64_t b = 0; b < w->shape.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < len_q_of(w, b); i++)
                for (int64_t d = 0, at = position_of(w, b, i); at >= 0 && d < columns; d++)
                    cache->value[((b * heads + h) * rows + at) * columns + d] = NAN;
}

void new_tokens_hide(struct workload *w) {
    hide_rows(w, &w->input[K]);
    hide_rows(w, &w->input[V]);
}

static float round_to(enum npy_type type, double value) {
    unsigned char bits[4];
    element_encode(type, (float)value, bits);
    return element_decode(type, bits);
}

/* Returns the element nearest to `value`. A kernel knows `value` only within `error`; *off: how far the element that it
   chooses may be from the nearest one. */
static float element_of(enum npy_type type, double value, double error, double *off) {
    float nearest = round_to(type, value);
    double around = error > 0 ? error + fabs(value) * 0x1p-23 : 0; /* rounding to float first is another error */
    double low = (double)nearest - (double)round_to(type, value - around);
    double high = (double)round_to(type, value + around) - (double)nearest;
    *off = error > 0 ? fmax(low, high) : 0;
    return nearest;
}

static struct oracle_rope rope_of(const struct workload *w) {
    const struct workload_input *cosine = input(w, "rope_cos"), *sine = input(w, "rope_sin");
    return (struct oracle_rope){.halves = w->problem.rope == rope_halves,
                                .dim = 2 * append_half(&w->problem),
                                .base = 10000,
                                .cosine = cosine ? cosine->value : NULL,
                                .sine = sine ? sine->value : NULL};
}

enum { ROW = 576 };

/* Rotates a row: elements go to `row`, their error bounds to `off`; the values before rounding and their errors go to y
   and error. */
static void rotate(const struct workload *w, enum npy_type type, int64_t position, const float *x, float *row,
                   double *off, double *y, double *error) {
    const struct oracle_rope rope = rope_of(w);
    int64_t dim = w->problem.head_dim;
    oracle_rope_row(&rope, rope.cosine && position < 0 ? 0 : position, x, dim, y);
    tolerance_rope(&rope, rope.cosine && position < 0 ? 0 : position, x, dim, y, error);
    for (int64_t d = 0; d < dim; d++)
        row[d] = element_of(type, y[d], error[d], &off[d]);
}

static void rotate_queries(const struct workload *w, struct new_tokens *tokens) {
    const struct workload_input *q = &w->input[Q];
    int64_t heads = q->dim[DIM_HEAD], len_q = q->dim[DIM_ROW], dim = q->dim[DIM_COLUMN];
    double y[ROW], error[ROW];
    for (int64_t b = 0; b < w->shape.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < len_q_of(w, b); i++) {
                int64_t at = ((b * heads + h) * len_q + i) * dim;
                rotate(w, q->type, position_of(w, b, i), q->value + at, tokens->q + at, tokens->q_error + at, y, error);
            }
}

/* Sets what the launch must write for a new row of K or V, at `to` of the cache. */
static void place_row(const struct workload_output *cache, int64_t to, int64_t columns, const double *y,
                      const double *error) {
    for (int64_t d = 0; d < columns; d++) {
        cache->expected[to + d] = y[d];
        cache->allowed[to + d] = error[d] > 0 ? tolerance_round((enum tolerance_type)cache->type, y[d], error[d]) : 0;
    }
}

static void place_token(const struct workload *w, struct new_tokens *tokens, int64_t b, int64_t h, int64_t i) {
    const struct workload_input *k_new = input(w, "k_new"), *v_new = input(w, "v_new");
    int64_t heads = w->input[K].dim[DIM_HEAD], rows = w->shape.len_kv, dim = w->problem.head_dim;
    int64_t dim_v = w->problem.head_dim_v, position = position_of(w, b, i);
    int64_t from = (b * heads + h) * w->shape.len_q + i, to = (b * heads + h) * rows + position;
    const struct workload_output *k_cache = output(w, "k_cache"), *v_cache = output(w, "v_cache");
    double y[ROW], error[ROW];
    rotate(w, k_new->type, position, k_new->value + from * dim, tokens->k + to * dim, tokens->k_error + to * dim, y,
           error);
    place_row(k_cache, to * dim, dim, y, error);
    for (int64_t d = 0; d < dim_v; d++) {
        tokens->v[to * dim_v + d] = v_new->value[from * dim_v + d];
        y[d] = (double)v_new->value[from * dim_v + d];
        error[d] = 0;
    }
    place_row(v_cache, to * dim_v, dim_v, y, error);
}

static void *copy_of(const float *from, int64_t count) {
    float *copy = malloc(sizeof *copy * (size_t)(count + 1));
    if (copy)
        memcpy(copy, from, sizeof *copy * (size_t)count);
    return copy;
}

bool new_tokens_make(struct new_tokens *tokens, const struct workload *w) {
    const struct workload_input *q = &w->input[Q], *k = &w->input[K], *v = &w->input[V];
    *tokens = (struct new_tokens){.q = copy_of(q->value, q->count),
                                  .k = copy_of(k->value, k->count),
                                  .v = copy_of(v->value, v->count),
                                  .q_error = calloc((size_t)q->count + 1, sizeof(double)),
                                  .k_error = calloc((size_t)k->count + 1, sizeof(double))};
    if (!tokens->q || !tokens->k || !tokens->v || !tokens->q_error || !tokens->k_error)
        return false;
    for (int i = 0; i < w->outputs; i++)
        for (int64_t at = 0; w->output[i].updates && at < w->output[i].count; at++)
            w->output[i].allowed[at] = -1;
    rotate_queries(w, tokens);
    for (int64_t b = 0; b < w->shape.batch; b++)
        for (int64_t h = 0; h < k->dim[DIM_HEAD]; h++)
            for (int64_t i = 0; i < len_q_of(w, b); i++)
                if (position_of(w, b, i) >= 0)
                    place_token(w, tokens, b, h, i);
    return true;
}

void new_tokens_free(struct new_tokens *tokens) {
    free(tokens->q);
    free(tokens->k);
    free(tokens->v);
    free(tokens->q_error);
    free(tokens->k_error);
    *tokens = (struct new_tokens){0};
}
