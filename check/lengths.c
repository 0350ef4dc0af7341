#include "lengths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_dense(const struct lengths *l) { return l->layout <= layout_dense; }

static int64_t some_of(int64_t most, float noise) {
    int64_t some = (int64_t)(fabsf(noise) * 0.6f * (float)most);
    return some < most ? some : most;
}

/* Cycles through all kinds of sequences. The seed determines the first kind. */
static void choose_length(struct lengths *l, const struct knobs *problem, const struct shape *shape, uint64_t seed,
                          int64_t b, const float *noise) {
    int64_t most_q = shape->len_q, most_kv = shape->len_kv, some_q = some_of(most_q, noise[0]);
    int64_t some_kv = some_of(most_kv, noise[1]), one_q = most_q < 1 ? most_q : 1, one_kv = most_kv < 1 ? most_kv : 1;
    const int64_t kinds[][2] = {{most_q, most_kv}, {some_q, some_kv}, {one_q, most_kv},
                                {0, some_kv},      {some_q, 0},       {one_q, one_kv}};
    const int64_t *kind = kinds[((uint64_t)b + seed) % (sizeof kinds / sizeof *kinds)];
    bool tensors = strchr(problem->formulas.params, '[') != NULL;
    l->len_q[b] = l->layout == layout_ragged ? kind[0] : most_q;
    l->len_kv[b] = kind[1];
    if (tensors && l->len_kv[b] > 0 && l->layout == layout_ragged && l->len_q[b] > l->len_kv[b])
        l->len_q[b] = l->len_kv[b];
    if (tensors && l->len_kv[b] > 0 && l->len_q[b] > l->len_kv[b])
        l->len_kv[b] = most_kv;
}

static void sum(const int64_t *length, int64_t batch, int32_t *sums) {
    sums[0] = 0;
    for (int64_t b = 0; b < batch; b++)
        sums[b + 1] = sums[b] + (int32_t)length[b];
}

/* Assigns a page to each used entry of the page table, in random order. */
static void deal_pages(struct lengths *l, uint64_t seed, int32_t *deck, float *noise) {
    tensor_random(seed + 0x20000, noise, l->pages);
    for (int64_t i = 0; i < l->pages; i++)
        deck[i] = (int32_t)i;
    for (int64_t i = l->pages - 1; i > 0; i--) {
        int64_t other = (int64_t)(fmodf(fabsf(noise[i]), 1) * (float)(i + 1)) % (i + 1);
        int32_t page = deck[i];
        deck[i] = deck[other];
        deck[other] = page;
    }
    int64_t dealt = 0, at = 0;
    for (int64_t b = 0; b < l->batch; b++) {
        l->indptr[b] = (int32_t)at;
        for (int64_t i = 0; i < l->columns; i++) {
            bool used = i * l->page_size < l->len_kv[b];
            int32_t page = used ? deck[dealt++] : i % 2 ? -1 : 0x7fffffff;
            l->table[b * l->columns + i] = page;
            if (used || i * l->page_size < l->len_kv[b] + l->page_size)
                l->indices[at++] = page;
        }
    }
    l->indptr[l->batch] = (int32_t)at;
}

static bool make_pages(struct lengths *l, const struct shape *shape, uint64_t seed) {
    enum { UNUSED = 3 };
    l->columns = (shape->len_kv + l->page_size - 1) / l->page_size + 1;
    l->pages = UNUSED;
    for (int64_t b = 0; b < l->batch; b++)
        l->pages += (l->len_kv[b] + l->page_size - 1) / l->page_size;
    size_t entries = (size_t)(l->batch * l->columns) + 1;
    l->table = calloc(entries, sizeof *l->table);
    l->indices = calloc(entries, sizeof *l->indices);
    l->indptr = calloc((size_t)l->batch + 1, sizeof *l->indptr);
    int32_t *deck = calloc((size_t)l->pages, sizeof *deck);
    float *noise = calloc((size_t)l->pages, sizeof *noise);
    bool good = l->table && l->indices && l->indptr && deck && noise;
    if (good)
        deal_pages(l, seed, deck, noise);
    free(deck);
    free(noise);
    return good;
}

static bool make(struct lengths *l, const struct knobs *problem, const struct shape *shape, uint64_t seed, bool full) {
    *l = (struct lengths){.layout = problem->layout,
                          .page_size = problem->page_size > 0 ? problem->page_size : 0,
                          .page_table = problem->page_table,
                          .batch = shape->batch};
    if (is_dense(l))
        return true;
    size_t count = (size_t)l->batch + 1;
    l->len_q = calloc(count, sizeof *l->len_q);
    l->len_kv = calloc(count, sizeof *l->len_kv);
    l->cu_seqlens_q = calloc(count, sizeof *l->cu_seqlens_q);
    l->cu_seqlens_kv = calloc(count, sizeof *l->cu_seqlens_kv);
    l->lengths_kv = calloc(count, sizeof *l->lengths_kv);
    float *noise = calloc(2 * count, sizeof *noise);
    bool good = l->len_q && l->len_kv && l->cu_seqlens_q && l->cu_seqlens_kv && l->lengths_kv && noise;
    if (good) {
        tensor_random(seed + 0x30000, noise, (int64_t)(2 * count));
        for (int64_t b = 0; b < l->batch; b++) {
            if (full) {
                l->len_q[b] = shape->len_q;
                l->len_kv[b] = shape->len_kv;
            } else {
                choose_length(l, problem, shape, seed, b, noise + 2 * b);
            }
            l->lengths_kv[b] = (int32_t)l->len_kv[b];
        }
        sum(l->len_q, l->batch, l->cu_seqlens_q);
        sum(l->len_kv, l->batch, l->cu_seqlens_kv);
    }
    free(noise);
    return good && (l->page_size == 0 || make_pages(l, shape, seed));
}

bool lengths_make(struct lengths *l, const struct knobs *problem, const struct shape *shape, uint64_t seed) {
    return make(l, problem, shape, seed, false);
}

bool lengths_make_full(struct lengths *l, const struct knobs *problem, const struct shape *shape, uint64_t seed) {
    return make(l, problem, shape, seed, true);
}

void lengths_free(struct lengths *l) {
    free(l->len_q);
    free(l->len_kv);
    free(l->cu_seqlens_q);
    free(l->cu_seqlens_kv);
    free(l->lengths_kv);
    free(l->table);
    free(l->indptr);
    free(l->indices);
    *l = (struct lengths){0};
}

void lengths_dims(const struct lengths *l, enum lengths_side side, int64_t *batch, int64_t *rows) {
    if (is_dense(l) || side == LENGTHS_EQUAL)
        return;
    if (side == LENGTHS_KV && l->page_size > 0) {
        *batch = l->pages;
        *rows = l->page_size;
    } else if (l->layout == layout_ragged) {
        *batch = 1;
        *rows = side == LENGTHS_Q ? l->cu_seqlens_q[l->batch] : l->cu_seqlens_kv[l->batch];
    }
}

bool lengths_locate(const struct lengths *l, enum lengths_side side, int64_t *batch, int64_t *row) {
    if (is_dense(l) || side == LENGTHS_EQUAL)
        return true;
    int64_t b = *batch;
    if (*row >= (side == LENGTHS_Q ? l->len_q[b] : l->len_kv[b]))
        return false;
    if (side == LENGTHS_KV && l->page_size > 0) {
        *batch = l->table[b * l->columns + *row / l->page_size];
        *row %= l->page_size;
    } else if (l->layout == layout_ragged) {
        *batch = 0;
        *row += side == LENGTHS_Q ? l->cu_seqlens_q[b] : l->cu_seqlens_kv[b];
    }
    return true;
}
