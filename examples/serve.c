/* Continuous batching: sequences arrive, are prefilled together (ragged), decode one token per step together, and
   leave; K and V are paged. Each step is checked against attention in double precision.

       example_serve [host | cuda] [fp16 | e4m3 | e5m2 | int8]      the device, and the type of the cache (fp16)

   A decode step always has room for BATCH sequences; absent ones have length 0. So the launches are the same in every
   step. On a GPU they are captured in a CUDA graph once and replayed: lengths and page numbers are read on the device.
   A cache of 8 bits has a scale for each row of K and V, which append_kv computes; attention reads both.
   There is no model, only what attention needs from one: random embeddings, and random projections to Q, K and V. */
#include <attile.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 32,
    PAGE = 8,
    PAGES = 24,
    BATCH = 4,
    LONGEST = 64,
    VOCABULARY = 50,
    REQUESTS = 7
};
enum {
    ROW_PAGES = LONGEST / PAGE,
    Q_ROW = HEADS * DIM,
    KV_ROW = KV_HEADS * DIM,
    PAGE_ROWS = PAGES * KV_HEADS * PAGE, /* each with a scale, if the cache has scales */
    PAGE_ELEMENTS = KV_HEADS * PAGE * DIM
};
static const double ROPE_BASE = 10000;

#define KIND "dtype=fp16 head_dim=32 page_size=8 heads=4 kv_heads=2 "
static const char *const problems[] = {"family=append_kv rope=halves layout=ragged " KIND,
                                       "family=attention_forward mask=causal layout=ragged " KIND,
                                       "family=append_kv rope=halves layout=padded " KIND,
                                       "family=attention_forward mask=causal layout=padded len_q=1 " KIND};
enum { PREFILL_APPEND, PREFILL, DECODE_APPEND, DECODE, KERNELS };

static att_session *session;
static att_kernel *kernel[KERNELS];

static void must(enum att_status status, const char *what) {
    if (status == ATT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, att_message(session));
    exit(1);
}

/* --- 16-bit numbers, and the model ----------------------------------------------------------------------------------- */

static uint16_t half_of(float x) { /* for numbers from 2^-14 to 2^15, and smaller ones to within 2^-25 */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size < 0x38800000)
        return (uint16_t)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
    return (uint16_t)(sign | (((size + 0xFFF + (size >> 13 & 1)) >> 13) - (112u << 10)));
}

static double number_of(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = ldexp(fraction + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    return half & 0x8000 ? -size : size;
}

/* The same for an element in memory, for each type that a cache may have. Infinity does not occur, and NaN only after a
   fault. */
static double fp16_at(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return (half & 0x7C00) == 0x7C00 ? NAN : number_of(half);
}
static double e5m2_at(const uint8_t *at) { /* the upper half of fp16 */
    return (*at & 0x7C) == 0x7C ? NAN : number_of((uint16_t)(*at << 8));
}
static double e4m3_at(const uint8_t *at) {
    int exponent = *at >> 3 & 15, fraction = *at & 7;
    double size = ldexp(fraction + (exponent ? 8 : 0), (exponent ? exponent : 1) - 10);
    return (*at & 0x7F) == 0x7F ? NAN : *at & 0x80 ? -size : size;
}
static double int8_at(const uint8_t *at) { return (int8_t)*at; }

/* Rounding x to a type moves it by at most unit |x|, or by `least` where that is more: half a step. */
static const struct storage {
    const char *name, *knobs;
    size_t bytes; /* of an element */
    double (*number_at)(const uint8_t *);
    double most; /* largest value; 0 = no scale */
    double unit, least;
} storages[] = {{"fp16", "", 2, fp16_at, 0, 0x1p-11, 0x1p-25},
                {"e4m3", "dtype_kv=e4m3 kv_scale=token ", 1, e4m3_at, 448, 0x1p-4, 0x1p-10},
                {"e5m2", "dtype_kv=e5m2 kv_scale=token ", 1, e5m2_at, 57344, 0x1p-3, 0x1p-17},
                {"int8", "dtype_kv=int8 kv_scale=token ", 1, int8_at, 127, 0, 0.5}};
static const struct storage *stored = storages;

/* Returns element `column` of the projection of a token by matrix `which`: from -1 to 1. Projecting a one-hot vector is
   a look-up. */
static uint16_t projected(int which, int token, int column) {
    uint32_t x = (uint32_t)(which * VOCABULARY + token) * 4096 + (uint32_t)column;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return half_of((float)(x >> 16) / 0x1p15f - 1);
}
enum { TO_Q, TO_K, TO_V, TO_TOKEN };

/* Returns the token whose embedding has the largest product with O. */
static int next_token(const uint16_t *o) {
    int best = 0;
    double most = -INFINITY;
    for (int token = 0; token < VOCABULARY; token++) {
        double product = 0;
        for (int c = 0; c < Q_ROW; c++)
            product += number_of(o[c]) * number_of(projected(TO_TOKEN, token, c));
        if (product > most)
            most = product, best = token;
    }
    return best;
}

/* --- pages ------------------------------------------------------------------------------------------------------- */

static struct { int free[PAGES], count; } pool;

static void pool_fill(void) {
    for (int i = 0; i < PAGES; i++)
        pool.free[pool.count++] = (i * 7 + 3) % PAGES; /* in scattered order */
}
static int pages_of(int tokens) { return (tokens + PAGE - 1) / PAGE; }

/* --- sequences --------------------------------------------------------------------------------------------------- */

struct sequence {
    int number; /* of its request; -1 = empty */
    int token[LONGEST], length, prompt, until;
    int32_t page[ROW_PAGES];
};
static struct sequence running[BATCH];
static int arrived, left, checked;
static double worst; /* error relative to the allowed error */
static double moved; /* how far storing K and V moves O */

static void grow(struct sequence *s, int length) {
    for (int i = pages_of(s->length); i < pages_of(length); i++)
        s->page[i] = pool.free[--pool.count];
    s->length = length;
}

static void leave(struct sequence *s) {
    printf("request %d leaves with %d tokens\n", s->number, s->length);
    for (int i = 0; i < pages_of(s->length); i++)
        pool.free[pool.count++] = s->page[i];
    for (int i = 0; i < ROW_PAGES; i++)
        s->page[i] = -1;
    *s = (struct sequence){.number = -1};
    left++;
}

/* Returns the number of pages that the running sequences may still request. */
static int promised(void) {
    int pages = 0;
    for (int b = 0; b < BATCH; b++)
        pages += running[b].number < 0 ? 0 : pages_of(running[b].until) - pages_of(running[b].length);
    return pages;
}

static bool arrive(struct sequence *s, int step) {
    int prompt = 3 + arrived * 5 % 23, until = prompt + 4 + arrived * 3 % 9;
    if (arrived == REQUESTS || step < 2 * arrived - 2 || promised() + pages_of(until) > pool.count)
        return false;
    *s = (struct sequence){.number = arrived, .prompt = prompt, .until = until};
    for (int i = 0; i < prompt; i++)
        s->token[i] = (arrived * 11 + i * 17) % VOCABULARY;
    printf("request %d arrives with %d tokens\n", arrived++, prompt);
    return true;
}

/* --- what must come out ---------------------------------------------------------------------------------------------- */

static void rotated(int which, int token, int head, int position, double *x) {
    for (int i = 0; i < DIM; i++)
        x[i] = number_of(projected(which, token, head * DIM + i));
    for (int i = 0; i < DIM / 2; i++) {
        double angle = position * pow(ROPE_BASE, -2.0 * i / DIM), a = x[i], b = x[i + DIM / 2];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + DIM / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void compare(const struct sequence *s, const char *what, int position, int head, int column, double expected,
                    double found, double allowed) {
    double error = fabs(expected - found);
    worst = fmax(worst, error / allowed);
    checked++;
    if (error <= allowed) /* NaN is not */
        return;
    fprintf(stderr, "request %d, token %d, %s, head %d, column %d: expected %g, found %g, allowed error %g\n",
            s->number, position, what, head, column, expected, found, allowed);
    exit(1);
}

/* Returns how far storing a row of DIM may move an element of it: half a step of the type. */
static double half_step(const double *row, int column) {
    double most = 0;
    for (int i = 0; i < DIM; i++)
        most = fmax(most, fabs(row[i]));
    return fmax(stored->unit * fabs(row[column]), stored->least * (stored->most ? most / stored->most : 1));
}

/* The first tokens of a sequence at one K/V head: K and V before they are stored, how far storing may move them, and
   what the cache holds of them. */
struct keys {
    double k[LONGEST][DIM], v[LONGEST][DIM];
};
static struct keys exact, step, held;

static struct { /* copy of the cache on the device, made after each launch */
    uint8_t k[PAGES * PAGE_ELEMENTS * sizeof(uint16_t)], v[PAGES * PAGE_ELEMENTS * sizeof(uint16_t)];
    float k_scale[PAGE_ROWS], v_scale[PAGE_ROWS];
} cache;

static void read_row(const struct sequence *s, int position, int kv, const uint8_t *elements, const float *scales,
                     double *row) {
    int at = (s->page[position / PAGE] * KV_HEADS + kv) * PAGE + position % PAGE;
    for (int i = 0; i < DIM; i++)
        row[i] = stored->number_at(elements + (size_t)(at * DIM + i) * stored->bytes) *
                 (stored->most ? (double)scales[at] : 1);
}

/* Rows of the cache are within half a step of what was appended. fp32 may add errors, in units of 2^-24: RoPE adds less
   than 19, as its elements are at most 1 (docs/numerics.md); the scale and the quotient add 4 times the result, which
   is at most sqrt(2). */
static void read_keys(const struct sequence *s, int kv, int count) {
    const double FP32 = 25 * 0x1p-24;
    for (int j = 0; j < count; j++) {
        rotated(TO_K, s->token[j], kv, j, exact.k[j]);
        for (int i = 0; i < DIM; i++)
            exact.v[j][i] = number_of(projected(TO_V, s->token[j], kv * DIM + i));
        read_row(s, j, kv, cache.k, cache.k_scale, held.k[j]);
        read_row(s, j, kv, cache.v, cache.v_scale, held.v[j]);
        for (int i = 0; i < DIM; i++) {
            step.k[j][i] = half_step(exact.k[j], i) + FP32;
            step.v[j][i] = half_step(exact.v[j], i) + FP32;
            compare(s, "K in the cache", j, kv, i, exact.k[j][i], held.k[j][i], step.k[j][i]);
            compare(s, "V in the cache", j, kv, i, exact.v[j][i], held.v[j][i], step.v[j][i]);
        }
    }
}

/* Returns the largest sum of |q k| / sqrt(DIM) over the first `count` rows of k. */
static double size_of_scores(const double *q, double (*k)[DIM], int count) {
    double most = 0;
    for (int j = 0; j < count; j++) {
        double size = 0;
        for (int i = 0; i < DIM; i++)
            size += fabs(q[i] * k[j][i]) / sqrt(DIM);
        most = fmax(most, size);
    }
    return most;
}

/* Computes O of one query, from the definition. */
static void attend(const double *q, const struct keys *keys, int count, double *o) {
    double weight[LONGEST], sum = 0;
    for (int j = 0; j < count; j++) {
        double score = 0;
        for (int i = 0; i < DIM; i++)
            score += q[i] * keys->k[j][i] / sqrt(DIM);
        sum += weight[j] = exp(score);
    }
    for (int i = 0; i < DIM; i++) {
        o[i] = 0;
        for (int j = 0; j < count; j++)
            o[i] += weight[j] / sum * keys->v[j][i];
    }
}

/* Checks O of the token at `position`, all heads, against two answers in double precision.
   From what the cache holds: kernels round Q, weights and O to fp16, each by a factor within 1 +- U. A score is off by
   U sum |q k|, so a weight by twice that, and O by that, its own rounding and those of all weights; elements of V are
   at most 1. Twice the sum is allowed, to cover the errors of fp32.
   From what was appended: storing K moves scores by up to e, so weights by a factor within exp(+-2 e), and O by that
   and by how far storing moves V. */
static void check(const struct sequence *s, int position, const uint16_t *o) {
    const double U = 0x1p-11;
    const int group = HEADS / KV_HEADS, count = position + 1;
    double q[DIM], from_held[DIM], from_exact[DIM];
    for (int h = 0; h < HEADS; h++) {
        if (h % group == 0)
            read_keys(s, h / group, count);
        rotated(TO_Q, s->token[position], h, position, q);
        attend(q, &held, count, from_held);
        attend(q, &exact, count, from_exact);
        double allowed = 2 * (2 * size_of_scores(q, held.k, count) + 2) * U, of_v = 0;
        for (int j = 0; j < count; j++)
            for (int i = 0; i < DIM; i++)
                of_v = fmax(of_v, step.v[j][i]);
        double stored_apart = expm1(2 * size_of_scores(q, step.k, count)) + of_v;
        for (int i = 0; i < DIM; i++) {
            double found = number_of(o[h * DIM + i]);
            compare(s, "O of the cache", position, h, i, from_held[i], found, allowed);
            compare(s, "O of what was appended", position, h, i, from_exact[i], found, allowed + stored_apart);
            moved = fmax(moved, fabs(from_held[i] - from_exact[i]));
        }
    }
}

/* --- the device -------------------------------------------------------------------------------------------------- */

static struct { /* in device memory; with room for all prompts */
    uint16_t *q, *k, *v, *o;
    void *pages_k, *pages_v;
    float *k_scale, *v_scale; /* null without scales */
    int32_t *cu_seqlens, *lengths, *table;
    void *workspace;
    size_t workspace_size;
} device;

static void *reserve(size_t bytes) {
    void *memory;
    must(att_alloc(session, bytes, &memory), "memory");
    return memory;
}

static void receive(void *to, const void *from, size_t bytes) { must(att_copy_out(session, to, from, bytes), "copy"); }
static void send(void *to, const void *from, size_t bytes) { must(att_copy_in(session, to, from, bytes), "copy"); }

/* Projects one token of a batch to row `row` of Q, K and V. */
static void project(uint16_t *q, uint16_t *k, uint16_t *v, int row, int token) {
    for (int c = 0; c < Q_ROW; c++)
        q[row * Q_ROW + c] = projected(TO_Q, token, c);
    for (int c = 0; c < KV_ROW; c++) {
        k[row * KV_ROW + c] = projected(TO_K, token, c);
        v[row * KV_ROW + c] = projected(TO_V, token, c);
    }
}

/* Tokens are contiguous, (tokens, heads, DIM), whether there is one per sequence or they are packed. */
static struct att_tensor tokens_at(void *data, int row) { return (struct att_tensor){data, row, DIM, row}; }

static struct att_args append_args(int most_new, int tokens) {
    bool ragged = most_new > 1;
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_APPEND_KV,
                             .append = {.q = tokens_at(device.q, Q_ROW),
                                        .q_out = tokens_at(device.q, Q_ROW), /* in place */
                                        .k = tokens_at(device.k, KV_ROW),
                                        .v = tokens_at(device.v, KV_ROW),
                                        .k_cache = {device.pages_k, PAGE_ELEMENTS, PAGE * DIM, DIM},
                                        .v_cache = {device.pages_v, PAGE_ELEMENTS, PAGE * DIM, DIM},
                                        .batch = BATCH,
                                        .heads = HEADS,
                                        .kv_heads = KV_HEADS,
                                        .len_q = most_new,
                                        .len_kv = LONGEST,
                                        .cu_seqlens_q = ragged ? device.cu_seqlens : NULL,
                                        .total_q = ragged ? tokens : 0,
                                        .lengths_kv = device.lengths,
                                        .page_table = device.table,
                                        .pages = PAGES,
                                        .k_scale = device.k_scale,
                                        .v_scale = device.v_scale,
                                        .rope_base = (float)ROPE_BASE}};
}

static struct att_args attention_args(int most_new, int tokens) {
    bool ragged = most_new > 1;
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_FORWARD,
                             .workspace = device.workspace,
                             .workspace_size = device.workspace_size,
                             .attention = {.q = tokens_at(device.q, Q_ROW),
                                           .k = {device.pages_k, PAGE_ELEMENTS, PAGE * DIM, DIM},
                                           .v = {device.pages_v, PAGE_ELEMENTS, PAGE * DIM, DIM},
                                           .o = tokens_at(device.o, Q_ROW),
                                           .batch = BATCH,
                                           .heads = HEADS,
                                           .kv_heads = KV_HEADS,
                                           .len_q = most_new,
                                           .len_kv = LONGEST,
                                           .cu_seqlens_q = ragged ? device.cu_seqlens : NULL,
                                           .total_q = ragged ? tokens : 0,
                                           .lengths_kv = device.lengths,
                                           .page_table = device.table,
                                           .pages = PAGES,
                                           .k_scale = device.k_scale,
                                           .v_scale = device.v_scale}};
}

/* --- the graph of a decode step, on a GPU ------------------------------------------------------------------------------ */

/* Driver functions, under their names in libcuda. Each returns 0 or an error. */
#define DRIVER(FUNCTION)                                                                                               \
    FUNCTION(cuInit, (unsigned))                                                                                       \
    FUNCTION(cuDevicePrimaryCtxRetain, (void **, int))                                                                 \
    FUNCTION(cuCtxSetCurrent, (void *))                                                                                \
    FUNCTION(cuStreamCreate, (void **, unsigned))                                                                      \
    FUNCTION(cuStreamBeginCapture_v2, (void *, int))                                                                   \
    FUNCTION(cuStreamEndCapture, (void *, void **))                                                                    \
    FUNCTION(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                       \
    FUNCTION(cuGraphLaunch, (void *, void *))                                                                          \
    FUNCTION(cuGraphExecDestroy, (void *))                                                                             \
    FUNCTION(cuGraphDestroy, (void *))                                                                                 \
    FUNCTION(cuStreamDestroy_v2, (void *))
#define POINTER(name, parameters) static int(*name) parameters;
DRIVER(POINTER)
static void *stream, *graph, *replay;
static int replays;

static void driver(int error, const char *what) {
    if (error == 0)
        return;
    fprintf(stderr, "%s: error %d of the driver\n", what, error);
    exit(1);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
#define FIND(name, parameters)                                                                                         \
    *(void **)&name = library ? dlsym(library, #name) : NULL;                                                          \
    driver(name ? 0 : -1, #name);
    DRIVER(FIND)
    driver(cuInit(0), "cuInit");
    driver(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    driver(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    driver(cuStreamCreate(&stream, 0), "cuStreamCreate");
}

static void launch_decode(void) {
    struct att_args append = append_args(1, BATCH), attention = attention_args(1, BATCH);
    must(att_launch(kernel[DECODE_APPEND], &append, stream), "append");
    must(att_launch(kernel[DECODE], &attention, stream), "decode");
}

static void run_decode(bool gpu) {
    if (!gpu) {
        launch_decode();
        return;
    }
    if (!replay) {
        enum { RELAXED = 2 };
        driver(cuStreamBeginCapture_v2(stream, RELAXED), "cuStreamBeginCapture");
        launch_decode();
        driver(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
        driver(cuGraphInstantiateWithFlags(&replay, graph, 0), "cuGraphInstantiate");
    }
    driver(cuGraphLaunch(replay, stream), "cuGraphLaunch");
    must(att_synchronize(session), "decode");
    replays++;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

static void send_lengths(void) {
    int32_t lengths[BATCH], table[BATCH * ROW_PAGES];
    for (int b = 0; b < BATCH; b++) {
        lengths[b] = running[b].length;
        memcpy(table + b * ROW_PAGES, running[b].page, sizeof running[b].page); /* stale past the last page */
    }
    send(device.lengths, lengths, sizeof lengths);
    send(device.table, table, sizeof table);
}

/* Copies the results of a launch: rows of O, and the cache. */
static void receive_results(uint16_t *o, int tokens) {
    size_t bytes = PAGES * PAGE_ELEMENTS * stored->bytes;
    receive(o, device.o, (size_t)tokens * Q_ROW * sizeof *o);
    receive(cache.k, device.pages_k, bytes);
    receive(cache.v, device.pages_v, bytes);
    if (device.k_scale) {
        receive(cache.k_scale, device.k_scale, sizeof cache.k_scale);
        receive(cache.v_scale, device.v_scale, sizeof cache.v_scale);
    }
}

/* Prefills all prompts that have just arrived, packed. The other sequences have no new token in this launch. */
static void prefill(const bool *is_new) {
    static uint16_t q[BATCH * LONGEST * Q_ROW], k[BATCH * LONGEST * KV_ROW], v[BATCH * LONGEST * KV_ROW],
        o[BATCH * LONGEST * Q_ROW];
    int32_t cu_seqlens[BATCH + 1] = {0};
    int tokens = 0;
    for (int b = 0; b < BATCH; b++) {
        for (int i = 0; is_new[b] && i < running[b].prompt; i++)
            project(q, k, v, tokens++, running[b].token[i]);
        if (is_new[b])
            grow(&running[b], running[b].prompt);
        cu_seqlens[b + 1] = tokens;
    }
    send(device.q, q, (size_t)tokens * Q_ROW * sizeof *q);
    send(device.k, k, (size_t)tokens * KV_ROW * sizeof *k);
    send(device.v, v, (size_t)tokens * KV_ROW * sizeof *v);
    send(device.cu_seqlens, cu_seqlens, sizeof cu_seqlens);
    send_lengths();
    struct att_args append = append_args(LONGEST, tokens), attention = attention_args(LONGEST, tokens);
    must(att_launch(kernel[PREFILL_APPEND], &append, NULL), "append");
    must(att_launch(kernel[PREFILL], &attention, NULL), "prefill");
    receive_results(o, tokens);
    for (int b = 0; b < BATCH; b++) {
        for (int i = 0; is_new[b] && i < running[b].prompt; i++)
            check(&running[b], i, o + (cu_seqlens[b] + i) * Q_ROW);
        if (is_new[b])
            running[b].token[running[b].length] = next_token(o + (cu_seqlens[b + 1] - 1) * Q_ROW);
    }
}

/* Decodes one more token of every sequence. */
static void decode(bool gpu) {
    uint16_t q[BATCH * Q_ROW] = {0}, k[BATCH * KV_ROW] = {0}, v[BATCH * KV_ROW] = {0}, o[BATCH * Q_ROW];
    for (int b = 0; b < BATCH; b++)
        if (running[b].number >= 0) {
            project(q, k, v, b, running[b].token[running[b].length]);
            grow(&running[b], running[b].length + 1);
        }
    send(device.q, q, sizeof q);
    send(device.k, k, sizeof k);
    send(device.v, v, sizeof v);
    send_lengths();
    run_decode(gpu);
    receive_results(o, BATCH);
    for (int b = 0; b < BATCH; b++) {
        struct sequence *s = &running[b];
        if (s->number < 0)
            continue;
        check(s, s->length - 1, o + b * Q_ROW);
        if (s->length == s->until)
            leave(s);
        else
            s->token[s->length] = next_token(o + b * Q_ROW);
    }
}

static void *reserve_rubbish(size_t bytes) {
    static uint8_t rubbish[PAGES * PAGE_ELEMENTS * sizeof(uint16_t)];
    memset(rubbish, 0xFF, sizeof rubbish); /* NaN in all float types */
    void *memory = reserve(bytes);
    send(memory, rubbish, bytes);
    return memory;
}

static void make_memory(void) {
    size_t tokens = BATCH * LONGEST, two = sizeof(uint16_t);
    device.q = reserve(tokens * Q_ROW * two);
    device.k = reserve(tokens * KV_ROW * two);
    device.v = reserve(tokens * KV_ROW * two);
    device.o = reserve(tokens * Q_ROW * two);
    /* A new page holds old data: NaN here, so that a kernel that reads too much is noticed. */
    device.pages_k = reserve_rubbish(PAGES * PAGE_ELEMENTS * stored->bytes);
    device.pages_v = reserve_rubbish(PAGES * PAGE_ELEMENTS * stored->bytes);
    device.k_scale = stored->most ? reserve_rubbish(PAGE_ROWS * sizeof(float)) : NULL;
    device.v_scale = stored->most ? reserve_rubbish(PAGE_ROWS * sizeof(float)) : NULL;
    device.cu_seqlens = reserve((BATCH + 1) * sizeof(int32_t));
    device.lengths = reserve(BATCH * sizeof(int32_t));
    device.table = reserve(BATCH * ROW_PAGES * sizeof(int32_t));
    struct att_args most[] = {attention_args(LONGEST, BATCH * LONGEST), attention_args(1, BATCH)};
    for (int i = 0; i < 2; i++) {
        size_t size;
        must(att_workspace_size(kernel[i == 0 ? PREFILL : DECODE], &most[i], &size), "workspace");
        device.workspace_size = size > device.workspace_size ? size : device.workspace_size;
    }
    device.workspace = reserve(device.workspace_size);
}

/* Interprets a word of the command line. */
static bool understood(const char *word, struct att_options *options) {
    if (strcmp(word, "host") == 0 || strcmp(word, "cuda") == 0) {
        options->device = *word == 'h' ? ATT_DEVICE_HOST : ATT_DEVICE_CUDA;
        return true;
    }
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++)
        if (strcmp(word, storages[i].name) == 0) {
            stored = &storages[i];
            return true;
        }
    fprintf(stderr, "example_serve: expected host or cuda, and fp16, e4m3, e5m2 or int8; found '%s'\n", word);
    return false;
}

int main(int count, char **word) {
    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_AUTO};
    for (int i = 1; i < count; i++)
        if (!understood(word[i], &options))
            return 2;
    must(att_open(&options, &session), "open");
    struct att_session_info info = {.size = sizeof info};
    must(att_session_describe(session, &info), "describe");
    bool gpu = info.device == ATT_DEVICE_CUDA;
    for (int i = 0; i < KERNELS; i++) {
        char problem[200];
        snprintf(problem, sizeof problem, "%s%s", problems[i], stored->knobs);
        must(att_find(session, problem, NULL, &kernel[i]), problem);
        must(att_prepare(kernel[i]), "prepare"); /* before capture */
        printf("%s\n", att_kernel_name(kernel[i]));
    }
    if (gpu)
        open_driver();
    pool_fill();
    make_memory();
    for (int b = 0; b < BATCH; b++)
        running[b].number = -1;
    int steps = 0;
    for (; left < REQUESTS; steps++) {
        bool is_new[BATCH] = {false}, any_new = false, any = false;
        for (int b = 0; b < BATCH; b++)
            if (running[b].number < 0)
                any_new |= is_new[b] = arrive(&running[b], steps);
        if (any_new)
            prefill(is_new);
        for (int b = 0; b < BATCH; b++)
            any |= running[b].number >= 0;
        if (any)
            decode(gpu);
    }
    printf("%d steps on %s, %d replays of one graph; %d numbers checked, the largest error is %.0f %% of what is "
           "allowed\n",
           steps, info.device_name, replays, checked, 100 * worst);
    printf("storing K and V as %s moves O by up to %.1g\n", stored->name, moved);
    if (gpu) {
        cuGraphExecDestroy(replay);
        cuGraphDestroy(graph);
        cuStreamDestroy_v2(stream);
    }
    att_close(session);
    return pool.count == PAGES ? 0 : 1;
}
