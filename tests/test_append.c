/* Family append_kv, beyond what the sweep (specs/append_kv*.yaml) covers: interleaved tensors, RoPE in place, large
   positions, and every mistake in the arguments. */
#include "append.h"
#include "rope.h"
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- arguments --------------------------------------------------------------------------------------------------- */

enum { B = 2, H = 4, KV = 2, NEW = 3, CAPACITY = 20, D = 8, PAGE = 4, PAGES = 12, SPARE = 64 };

static float q[B * NEW * H * D + SPARE], q_out[B * NEW * H * D + SPARE], k[B * NEW * KV * D + SPARE],
    v[B * NEW * KV * D + SPARE], cache[2 * PAGES * KV * PAGE * D + SPARE], scales[2 * PAGES * KV * PAGE + SPARE],
    cosine[CAPACITY * D / 2], sine[CAPACITY * D / 2];
static int32_t cu_seqlens[B + 1], lengths[B], table[B * CAPACITY / PAGE], positions[B * NEW];
static int64_t slots[B * NEW];

static struct knobs knobs_of(const char *problem) {
    struct knobs knobs = knobs_default();
    struct input input = {"test", problem, strlen(problem)};
    struct diag diag = {0};
    cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag));
    knobs.family = family_append_kv;
    knobs.head_dim = knobs.head_dim_v = D;
    knobs.dtype_out = knobs.dtype;
    if (knobs.dtype_kv == AUTO)
        knobs.dtype_kv = knobs.dtype;
    return knobs;
}

/* Appends packed tokens to pages. K and V of a page are adjacent. */
static struct att_args ragged(void) {
    enum { ROW = D, HEAD = PAGE * D, BOTH = 2 * KV * PAGE * D };
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_APPEND_KV,
                             .append = {.q = {q, 0, D, H * D},
                                        .q_out = {q_out, 0, D, H * D},
                                        .k = {k, 0, D, KV * D},
                                        .v = {v, 0, D, KV * D},
                                        .k_cache = {cache, BOTH, HEAD, ROW},
                                        .v_cache = {cache + KV * PAGE * D, BOTH, HEAD, ROW},
                                        .batch = B,
                                        .heads = H,
                                        .kv_heads = KV,
                                        .len_q = NEW,
                                        .len_kv = CAPACITY,
                                        .cu_seqlens_q = cu_seqlens,
                                        .total_q = B * NEW,
                                        .lengths_kv = lengths,
                                        .page_table = table,
                                        .pages = PAGES}};
}

static enum att_status read(const char *problem, const struct att_args *args, struct arguments *out,
                            char message[512]) {
    struct knobs knobs = knobs_of(problem);
    struct failure failure = {0};
    enum att_status status = arguments_read(&knobs, args, out, &failure);
    snprintf(message, 512, "%s", text_string(&failure.text));
    failure_clear(&failure);
    return status;
}

static void expect_good(const char *problem, struct att_args args, const char *what) {
    struct arguments out;
    char message[512];
    cr_expect_eq(read(problem, &args, &out, message), ATT_OK, "%s: %s", what, message);
}

static void expect_bad(const char *problem, struct att_args args, const char *words) {
    struct arguments out;
    char message[512];
    cr_expect_eq(read(problem, &args, &out, message), ATT_INVALID_ARGUMENT, "accepted, expected: %s", words);
    cr_expect(strstr(message, words), "expected \"%s\" in: %s", words, message);
}

#define RAGGED "rope=halves layout=ragged page_size=4"
#define GOOD(problem, change)                                                                                          \
    do {                                                                                                               \
        struct att_args args = ragged();                                                                               \
        struct att_append_args *a = &args.append;                                                                      \
        (void)a, change;                                                                                               \
        expect_good(problem, args, #change);                                                                           \
    } while (0)
#define BAD(problem, change, words)                                                                                    \
    do {                                                                                                               \
        struct att_args args = ragged();                                                                               \
        struct att_append_args *a = &args.append;                                                                      \
        (void)a, change;                                                                                               \
        expect_bad(problem, args, words);                                                                              \
    } while (0)

Test(append, what_serving_engines_have_is_accepted) {
    GOOD(RAGGED, (void)0);
    GOOD(RAGGED, a->q_out = a->q);
    GOOD(RAGGED, (a->q.data = NULL, a->q_out.data = NULL)); /* K and V only */
    /* Q, K and V of a token are adjacent, Q is rotated in place */
    enum { TOKEN = (H + 2 * KV) * D };
    static float qkv[B * NEW * TOKEN];
    GOOD(RAGGED,
         (a->q = a->q_out = (struct att_tensor){qkv, 0, D, TOKEN}, a->k = (struct att_tensor){qkv + H * D, 0, D, TOKEN},
          a->v = (struct att_tensor){qkv + (H + KV) * D, 0, D, TOKEN}));
    GOOD("rope=halves slots=1 page_size=4",
         (a->slots = slots, a->positions = positions, a->batch = 1, a->len_q = B * NEW));
    GOOD("slots=1 page_size=4", a->slots = slots);
    GOOD("dtype_kv=int8 kv_scale=token layout=ragged page_size=4",
         (a->k_scale = scales, a->v_scale = scales + PAGES * KV * PAGE));
    GOOD(RAGGED, (a->total_q = 0, a->q.data = a->k.data = a->v.data = a->q_out.data = NULL));
    GOOD(RAGGED " rope_from=tables", (a->rope_cos = cosine, a->rope_sin = sine, a->rope_rows = CAPACITY));
}

Test(append, mistakes_are_named) {
    BAD(RAGGED, a->k.data = NULL,
        "k is null, expected a pointer to 96 elements; k has shape (total_q 6, kv_heads 2, head_dim 8)");
    BAD(RAGGED, a->q_out.data = NULL, "q_out is null");
    BAD(RAGGED, a->q.data = NULL, "q is null and q_out is not; both are null to append only");
    BAD(RAGGED, a->v_cache.data = NULL, "v_cache is null");
    BAD(RAGGED, a->k_cache.row_stride = D - 1, "k_cache: row_stride is 7, expected at least 8");
    BAD(RAGGED, a->v.row_stride = -1, "v: row_stride is -1, expected 0 or more");
    BAD(RAGGED, a->q_out.data = q + D, "q_out overlaps q");
    BAD(RAGGED, a->k_cache.data = k, "k_cache overlaps");
    BAD(RAGGED, a->cu_seqlens_q = NULL, "cu_seqlens_q is null");
    BAD(RAGGED, a->lengths_kv = NULL, "lengths_kv is null");
    BAD(RAGGED, a->page_table = NULL, "page_table is null");
    BAD(RAGGED " page_table=csr", (void)0, "page_indptr is null");
    BAD(RAGGED, a->pages = -1, "pages is -1, expected 0 to");
    BAD(RAGGED, a->total_q = -1, "total_q is -1, expected 0 to");
    BAD(RAGGED, a->batch = 0, "batch is 0, expected 1 to");
    BAD(RAGGED, a->rope_base = -2, "rope_base is -2, expected a finite number of at least 1; 0 = 10000");
    BAD(RAGGED " rope_from=tables", (a->rope_cos = cosine, a->rope_sin = sine, a->rope_rows = CAPACITY - 1),
        "rope_rows is 19, expected a row for each of the positions, len_kv = 20");
    BAD(RAGGED " rope_from=tables", (a->rope_cos = cosine, a->rope_rows = CAPACITY), "rope_sin is null");
    BAD("slots=1 page_size=4", (void)0, "slots is null");
    BAD("rope=halves slots=1 page_size=4", a->slots = slots, "positions is null");
    BAD("dtype_kv=e4m3 kv_scale=head layout=ragged page_size=4", a->k_scale = scales, "v_scale is null");
    BAD("dtype_kv=int8 kv_scale=token layout=ragged page_size=4", (a->k_scale = a->v_scale = cache),
        "k_scale overlaps");
    BAD("layout=dense", a->len_kv = NEW - 1, "len_q is 3, expected at most len_kv, which is 2");
}

Test(append, aligned_is_what_divides_all) {
    struct arguments out;
    char message[512];
    struct att_args args = ragged();
    cr_assert_eq(read(RAGGED, &args, &out, message), ATT_OK, "%s", message);
    cr_expect_eq(out.params.append.aligned, 8, "rows of 8 elements");
    args.append.v.row_stride += 2;
    args.append.total_q = args.append.batch = 1;
    cr_assert_eq(read(RAGGED, &args, &out, message), ATT_OK, "%s", message);
    cr_expect_eq(out.params.append.aligned, 8, "a stride that is never stepped over");
    args.append.q.data = q + 2;
    args.append.q_out.data = q_out;
    cr_assert_eq(read(RAGGED, &args, &out, message), ATT_OK, "%s", message);
    cr_expect_eq(out.params.append.aligned, 2);
}

Test(append, what_cannot_be_is_refused_before_anything_is_compiled) {
    static const struct {
        const char *problem, *words;
    } cases[] = {{"page_size=20 layout=ragged", "page_size is 20"},
                 {"page_size=16", "slots == 1 or page_size == 0 or layout != dense does not hold"},
                 {"slots=1", "slots == 0 or (page_size > 0"},
                 {"rope=halves rope_dim=7", "rope_dim % 2 == 0 does not hold: rope_dim is 7"},
                 {"rope=halves head_dim=64 rope_dim=66", "rope_dim <= head_dim does not hold"},
                 {"rope=halves head_dim=264", "half <= 128 does not hold: half is 132"},
                 {"rope_dim=8", "rope != none or"},
                 {"kv_scale=token", "kv_scale is token, dtype_kv is fp32"},
                 {"dtype=fp16 dtype_kv=bf16", "kept or dtype_kv in [e4m3, e5m2, int8] does not hold"}};
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[128];
        att_kernel *kernel;
        snprintf(problem, sizeof problem, "family=append_kv %s", cases[i].problem);
        cr_expect_eq(att_find(session, problem, NULL, &kernel), ATT_UNSUPPORTED, "%s", problem);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", problem, att_message(session));
    }
    att_close(session);
}

Test(append, lengths_are_checked_where_they_can_be_read) {
    struct knobs knobs = knobs_of(RAGGED);
    struct att_args args = ragged();
    struct shape shape = {.batch = B, .len_q = NEW, .len_kv = CAPACITY};
    static const struct {
        int32_t cu_seqlens[B + 1], lengths[B];
        const char *words;
    } cases[] = {{{0, 3, 6}, {3, CAPACITY}, NULL},
                 {{0, 0, 0}, {0, 1}, NULL}, /* fewer tokens than total_q */
                 {{1, 3, 6}, {3, 3}, "cu_seqlens_q[0] is 1, expected 0 to 0"},
                 {{0, 3, 2}, {3, 3}, "cu_seqlens_q[2] is 2, expected 3 to 6"},
                 {{0, 4, 6}, {3, 3}, "cu_seqlens_q[1] is 4, expected 0 to 3"},
                 {{0, 3, 6}, {3, CAPACITY + 1}, "lengths_kv[1] is 21, expected 0 to 20 (len_kv is the most)"},
                 {{0, 3, 6}, {-1, 3}, "lengths_kv[0] is -1, expected 0 to 20"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct failure failure = {0};
        memcpy(cu_seqlens, cases[i].cu_seqlens, sizeof cu_seqlens);
        memcpy(lengths, cases[i].lengths, sizeof lengths);
        enum att_status status = append_check(&knobs, &args.append, &shape, &failure);
        cr_expect_eq(status, cases[i].words ? ATT_INVALID_ARGUMENT : ATT_OK, "case %zu", i);
        cr_expect(!cases[i].words || strstr(text_string(&failure.text), cases[i].words), "case %zu: %s", i,
                  text_string(&failure.text));
        failure_clear(&failure);
    }
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

Test(append, frequencies_are_exact_to_the_last_bits) {
    enum { HALF = 64 };
    unsigned long long turns[HALF];
    rope_turns(500000, HALF, turns);
    for (int i = 0; i < HALF; i++) {
        long double exact = powl(500000, -(long double)i / HALF) / (2 * acosl(-1)) * 0x1p64L;
        cr_expect(fabsl((long double)turns[i] - exact) <= 1 + exact * 0x1p-56L, "pair %d", i);
    }
}

/* Q rows of a token alternate with its K, in place, at a position where fp32 angles would be off by 0.06. */
Test(append, rope_in_place_beside_keys_at_a_large_position) {
    enum { DIM = 16, TOKEN = 3 * DIM, FIRST = 1000000, TOKENS = 2, KEYS = FIRST + TOKENS };
    float qkv[TOKENS * TOKEN], before[TOKENS * TOKEN], keys[TOKENS * DIM];
    unsigned seed = 1;
    run_fill(before, TOKENS * TOKEN, TOLERANCE_FP32, &seed);
    att_session *session = run_open();
    att_kernel *kernel =
        run_find(session, "family=append_kv head_dim=16 rope=interleaved layout=padded page_size=1", NULL);
    void *tokens, *cached, *numbers, *length;
    int32_t *page = calloc(KEYS, sizeof *page), now = KEYS;
    cr_assert_not_null(page);
    page[FIRST] = 1;
    cr_assert(!att_alloc(session, sizeof qkv, &tokens) && !att_alloc(session, 2 * sizeof keys, &cached) &&
              !att_alloc(session, KEYS * sizeof *page, &numbers) && !att_alloc(session, sizeof now, &length));
    cr_assert(!att_copy_in(session, tokens, before, sizeof before) &&
              !att_copy_in(session, numbers, page, KEYS * sizeof *page) &&
              !att_copy_in(session, length, &now, sizeof now));
    float *at = tokens, *pages = cached;
    struct att_tensor queries = {at, 0, 0, TOKEN};
    struct att_args args = {.size = sizeof args,
                            .family = ATT_APPEND_KV,
                            .append = {.q = queries,
                                       .q_out = queries,
                                       .k = {at + DIM, 0, 0, TOKEN},
                                       .v = {at + 2 * DIM, 0, 0, TOKEN},
                                       .k_cache = {pages, 2 * DIM, 0, 0},
                                       .v_cache = {pages + DIM, 2 * DIM, 0, 0},
                                       .batch = 1,
                                       .heads = 1,
                                       .len_q = TOKENS,
                                       .len_kv = KEYS,
                                       .lengths_kv = length,
                                       .page_table = numbers,
                                       .pages = TOKENS,
                                       .rope_base = 500000}};
    enum att_status status = att_launch(kernel, &args, NULL);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    float both[2 * TOKENS * DIM];
    cr_assert(!att_copy_out(session, qkv, tokens, sizeof qkv) && !att_copy_out(session, both, cached, sizeof both));
    struct oracle_rope rope = {.dim = DIM, .base = 500000};
    for (int t = 0; t < TOKENS; t++) {
        double y[DIM], error[DIM];
        const float *x = before + t * TOKEN;
        for (int part = 0; part < 2; part++, x += DIM) {
            oracle_rope_row(&rope, FIRST + t, x, DIM, y);
            tolerance_rope(&rope, FIRST + t, x, DIM, y, error);
            const float *found = part == 0 ? qkv + t * TOKEN : both + page[FIRST + t] * 2 * DIM;
            for (int d = 0; d < DIM; d++)
                cr_expect(fabs((double)found[d] - y[d]) <= tolerance_round(TOLERANCE_FP32, y[d], error[d]),
                          "token %d, part %d, column %d: expected %.9g, found %.9g", t, part, d, y[d],
                          (double)found[d]);
        }
        cr_expect_arr_eq(both + (page[FIRST + t] * 2 + 1) * DIM, x, DIM * sizeof *x, "V is copied");
        cr_expect_arr_eq(qkv + t * TOKEN + DIM, before + t * TOKEN + DIM, 2 * DIM * sizeof *x, "K and V stay");
    }
    free(page);
    att_close(session);
}

/* A token's int8 row and its scale reproduce the appended values to within half a step. NaN shows when the row
   is read back. */
Test(append, what_was_quantised_reads_back) {
    enum { TOKENS = 5, DIM = 24 };
    float x[2 * TOKENS * DIM], scale[2 * TOKENS];
    int8_t found[2 * TOKENS * DIM];
    unsigned seed = 7;
    run_fill(x, 2 * TOKENS * DIM, TOLERANCE_FP32, &seed);
    memset(x + DIM, 0, DIM * sizeof *x); /* a row of zeros */
    x[2 * DIM + 3] = NAN;
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, "family=append_kv head_dim=24 dtype_kv=int8 kv_scale=token", NULL);
    void *tokens, *cached, *scaled;
    cr_assert(!att_alloc(session, sizeof x, &tokens) && !att_alloc(session, sizeof found, &cached) &&
              !att_alloc(session, sizeof scale, &scaled) && !att_copy_in(session, tokens, x, sizeof x));
    struct att_args args = {.size = sizeof args,
                            .family = ATT_APPEND_KV,
                            .append = {.k = {tokens, 0, 0, DIM},
                                       .v = {(float *)tokens + TOKENS * DIM, 0, 0, DIM},
                                       .k_cache = {cached, 0, 0, DIM},
                                       .v_cache = {(int8_t *)cached + TOKENS * DIM, 0, 0, DIM},
                                       .k_scale = scaled,
                                       .v_scale = (float *)scaled + TOKENS,
                                       .batch = 1,
                                       .heads = 1,
                                       .len_q = TOKENS,
                                       .len_kv = TOKENS}};
    enum att_status status = att_launch(kernel, &args, NULL);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    cr_assert(!att_copy_out(session, found, cached, sizeof found) &&
              !att_copy_out(session, scale, scaled, sizeof scale));
    for (int row = 0; row < 2 * TOKENS; row++)
        for (int d = 0; d < DIM; d++) {
            double back = (double)scale[row] * found[row * DIM + d], was = (double)x[row * DIM + d];
            if (row == 2)
                cr_expect(isnan(back), "a row with NaN reads back as NaN");
            else
                cr_expect(fabs(back - was) <= 0.5 * (double)scale[row] * (1 + 256 * 0x1p-22), "row %d, column %d", row,
                          d);
        }
    cr_expect_eq(scale[1], 0);
    att_close(session);
}
