#include "append_answer.h"
#include "oracle.h"
#include "tolerance.h"
#include "workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t append_half(const struct knobs *problem) {
    if (problem->rope <= rope_none)
        return 0;
    return (problem->rope_dim > 0 ? problem->rope_dim : problem->head_dim) / 2;
}

int64_t append_blocks(const struct knobs *problem, const struct shape *shape) {
    enum { UNUSED = 2 };
    if (problem->slots != 1)
        return shape->batch;
    return (shape->batch * shape->len_q + problem->page_size - 1) / problem->page_size + UNUSED;
}

int64_t append_rows(const struct knobs *problem, const struct shape *shape) {
    return problem->slots == 1 ? problem->page_size : shape->len_kv;
}

bool append_make(struct append_places *places, const struct knobs *problem, const struct shape *shape, uint64_t seed) {
    enum { ONE_IN = 7 }; /* one token in ONE_IN is not stored */
    if (problem->family != family_append_kv || problem->slots != 1)
        return true;
    int64_t tokens = shape->batch * shape->len_q, slots = append_blocks(problem, shape) * problem->page_size;
    places->slot = calloc((size_t)slots + 1, sizeof *places->slot);
    places->position = calloc((size_t)tokens + 1, sizeof *places->position);
    float *noise = calloc((size_t)slots + 1, sizeof *noise);
    bool good = places->slot && places->position && noise;
    if (good)
        tensor_random(seed + 0x40000, noise, slots);
    for (int64_t i = 0; good && i < slots; i++)
        places->slot[i] = i;
    for (int64_t i = slots - 1; good && i > 0; i--) {
        int64_t other = (int64_t)(fmodf(fabsf(noise[i]) * 1000, 1) * (float)(i + 1)) % (i + 1), slot = places->slot[i];
        places->slot[i] = places->slot[other];
        places->slot[other] = slot;
    }
    for (int64_t i = 0; good && i < tokens; i++) {
        places->position[i] = (int32_t)(fmodf(fabsf(noise[i]), 1) * (float)shape->len_kv);
        if (i % ONE_IN == ONE_IN - 1)
            places->slot[i] = i % 2 ? -1 : INT64_MAX;
    }
    free(noise);
    return good;
}

void append_free(struct append_places *places) {
    free(places->slot);
    free(places->position);
    *places = (struct append_places){0};
}

/* --- the answer -------------------------------------------------------------------------------------------------- */

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

/* A token of a sequence, its position, and its place in the cache; block -1: not stored. */
struct token {
    int64_t sequence, row, position, block, place;
};

static struct token token_at(const struct workload *w, int64_t b, int64_t i) {
    const struct shape *s = &w->shape;
    if (w->places.slot) {
        int64_t slot = w->places.slot[b * s->len_q + i], rows = append_rows(&w->problem, s);
        bool inside = slot >= 0 && slot < rows * append_blocks(&w->problem, s);
        return (struct token){b, i, w->places.position[b * s->len_q + i], inside ? slot / rows : -1, slot % rows};
    }
    int64_t len_q = w->lengths.len_q ? w->lengths.len_q[b] : s->len_q;
    int64_t position = (w->lengths.len_kv ? w->lengths.len_kv[b] : s->len_kv) - len_q + i;
    return (struct token){b, i, position, position >= 0 && i < len_q ? b : -1, position};
}

/* Fills the answer for one row of K or V. `error`: bounds of the absolute errors of y. */
static void append_row(const struct workload *w, const struct token *token, int64_t h, const char *cache_name,
                       const char *scale_name, const double *y, const double *error) {
    const struct workload_output *cache = output(w, cache_name), *written = output(w, scale_name);
    const struct workload_input *given = input(w, scale_name);
    enum tolerance_type type = (enum tolerance_type)cache->type;
    int64_t heads = cache->dim[DIM_HEAD], rows = cache->dim[DIM_ROW], dim = cache->dim[DIM_COLUMN];
    int64_t at = (token->block * heads + h) * rows + token->place;
    double scale = 1, scale_error = 0, most = tolerance_roundings[type].largest, largest = 0, largest_error = 0;
    for (int64_t d = 0; d < dim; d++) {
        largest = fmax(largest, fabs(y[d]));
        largest_error = fmax(largest_error, error[d]);
    }
    if (given) {
        scale = (double)given->value[given->count == 1 ? 0 : h];
        scale_error = 2 * 0x1p-24; /* roundings of its reciprocal and of the product */
    } else if (written) {
        scale = largest / most;
        scale_error = 2 * 0x1p-24 + (largest > 0 ? largest_error / largest : 0);
        written->expected[at] = scale;
        written->allowed[at] = tolerance_round(TOLERANCE_FP32, scale, largest_error / most);
    }
    for (int64_t d = 0; d < dim; d++) {
        double number = scale > 0 ? y[d] / scale : 0;
        bool kept = (int)type <= (int)TOLERANCE_BF16 && error[d] == 0; /* bits are copied */
        double off = (scale > 0 ? error[d] / scale : 0) + fabs(number) * scale_error;
        cache->expected[at * dim + d] = (int)type > (int)TOLERANCE_BF16 ? fmax(-most, fmin(number, most)) : number;
        cache->allowed[at * dim + d] = kept ? 0 : tolerance_round(type, number, off);
    }
}

static void answer_token(const struct workload *w, const struct oracle_rope *rope, const struct token *token, double *y,
                         double *error) {
    const struct workload_input *q = input(w, "q"), *k = input(w, "k"), *v = input(w, "v");
    const struct workload_output *q_out = output(w, "q_out");
    int64_t len_q = w->shape.len_q, dim = w->problem.head_dim, dim_v = w->problem.head_dim_v;
    for (int64_t h = 0; q_out && h < q->dim[DIM_HEAD]; h++) {
        int64_t at = ((token->sequence * q->dim[DIM_HEAD] + h) * len_q + token->row) * dim;
        oracle_rope_row(rope, token->position, q->value + at, dim, y);
        tolerance_rope(rope, token->position, q->value + at, dim, y, error);
        for (int64_t d = 0; d < dim; d++) {
            q_out->expected[at + d] = y[d];
            q_out->allowed[at + d] = tolerance_round((enum tolerance_type)q_out->type, y[d], error[d]);
        }
    }
    for (int64_t h = 0; token->block >= 0 && h < k->dim[DIM_HEAD]; h++) {
        int64_t at = (token->sequence * k->dim[DIM_HEAD] + h) * len_q + token->row;
        oracle_rope_row(rope, token->position, k->value + at * dim, dim, y);
        tolerance_rope(rope, token->position, k->value + at * dim, dim, y, error);
        append_row(w, token, h, "k_cache", "k_scale", y, error);
        for (int64_t d = 0; d < dim_v; d++) {
            y[d] = (double)v->value[at * dim_v + d];
            error[d] = 0;
        }
        append_row(w, token, h, "v_cache", "v_scale", y, error);
    }
}

bool append_answer(const struct workload *w) {
    const struct workload_input *cosine = input(w, "rope_cos"), *sine = input(w, "rope_sin");
    struct oracle_rope rope = {.halves = w->problem.rope == rope_halves,
                               .dim = 2 * append_half(&w->problem),
                               .base = 10000,
                               .cosine = cosine ? cosine->value : NULL,
                               .sine = sine ? sine->value : NULL};
    for (int i = 0; i < w->outputs; i++)
        for (int64_t k = 0; k < w->output[i].count; k++)
            w->output[i].allowed[k] = -1;
    enum { ROW = 256 };
    double y[ROW], error[ROW];
    for (int64_t b = 0; b < w->shape.batch; b++)
        for (int64_t i = 0; i < w->shape.len_q; i++) {
            struct token token = token_at(w, b, i);
            if (token.position < 0 && cosine) /* tables have no such row; Q is rotated by the first one */
                token.position = 0;
            answer_token(w, &rope, &token, y, error);
        }
    return true;
}
