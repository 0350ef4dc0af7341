/* Knob append of attention_forward, beyond what the sweep (specs/attention_append_decode.yaml) covers: the bits are
   those of append_kv followed by decode, and every mistake in the arguments and the problem. */
#include "arguments.h"
#include "helper_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- arguments --------------------------------------------------------------------------------------------------- */

enum { B = 2, H = 4, KV = 2, NEW = 3, CAPACITY = 20, D = 16, PAGE = 4, PAGES = 12, SPARE = 64 };

static uint16_t q[B * NEW * H * D + SPARE], o[B * NEW * H * D + SPARE], k_new[B * NEW * KV * D + SPARE],
    v_new[B * NEW * KV * D + SPARE], cache[2 * PAGES * KV * PAGE * D + SPARE];
static float cosine[CAPACITY * D / 2], sine[CAPACITY * D / 2];
static int32_t cu_seqlens[B + 1], lengths[B], table[B * CAPACITY / PAGE];

/* Appends packed tokens to pages. K and V of a page are adjacent. */
static struct att_args ragged(void) {
    enum { BOTH = 2 * KV * PAGE * D };
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_FORWARD,
                             .attention = {.q = {q, 0, D, H * D},
                                           .o = {o, 0, D, H * D},
                                           .k = {cache, BOTH, PAGE * D, D},
                                           .v = {cache + KV * PAGE * D, BOTH, PAGE * D, D},
                                           .k_new = {k_new, 0, D, KV * D},
                                           .v_new = {v_new, 0, D, KV * D},
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
    struct knobs knobs = knobs_default();
    struct input input = {"test", problem, strlen(problem)};
    struct diag diag = {0};
    struct failure failure = {0};
    cr_assert(knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag));
    knobs.family = family_attention_forward;
    knobs.dtype = knobs.dtype_out = dtype_bf16;
    knobs.dtype_kv = dtype_kv_bf16;
    knobs.head_dim = knobs.head_dim_v = D;
    enum att_status status = arguments_read(&knobs, args, out, &failure);
    snprintf(message, 512, "%s", text_string(&failure.text));
    failure_clear(&failure);
    return status;
}

static void expect(const char *problem, struct att_args args, const char *words) {
    struct arguments out;
    char message[512];
    enum att_status status = read(problem, &args, &out, message);
    cr_expect_eq(status, words ? ATT_INVALID_ARGUMENT : ATT_OK, "%s: %s", words ? words : "fine", message);
    cr_expect(!words || strstr(message, words), "expected \"%s\" in: %s", words, message);
}

#define PLAIN  "layout=ragged page_size=4 append=1"
#define ROTATE PLAIN " rope=halves"
#define TABLES ROTATE " rope_from=tables"
#define ARGUMENTS(problem, change, words)                                                                              \
    do {                                                                                                               \
        struct att_args args = ragged();                                                                               \
        struct att_attention_args *a = &args.attention;                                                                \
        (void)a, change;                                                                                               \
        expect(problem, args, words);                                                                                  \
    } while (0)

Test(new_tokens, mistakes_are_named) {
    ARGUMENTS(PLAIN, (void)0, NULL);
    ARGUMENTS(ROTATE, a->rope_base = 500000, NULL);
    ARGUMENTS(TABLES, (a->rope_cos = cosine, a->rope_sin = sine, a->rope_rows = CAPACITY), NULL);
    ARGUMENTS(PLAIN, (a->total_q = 0, a->q.data = a->k_new.data = a->v_new.data = a->o.data = NULL), NULL);
    ARGUMENTS(PLAIN, a->k_new.data = NULL,
              "k_new is null, expected a pointer to 192 elements; k_new has shape (batch 1, kv_heads 2, total_q 6, "
              "head_dim 16)");
    ARGUMENTS(PLAIN, a->v_new.data = NULL, "v_new is null");
    ARGUMENTS(PLAIN, a->k_new.row_stride = -1, "k_new: row_stride is -1, expected 0 or more");
    ARGUMENTS(PLAIN, a->k.row_stride = D - 1, "k: row_stride is 15, expected at least 16, or elements of the output");
    ARGUMENTS(PLAIN, a->v.head_stride = D, "v: head_stride is 16, expected");
    ARGUMENTS(PLAIN, a->k_new.data = cache, "k overlaps k_new");
    ARGUMENTS(PLAIN, a->q.data = cache, "k overlaps q");
    ARGUMENTS(PLAIN, a->o.data = cache, "overlaps k");
    ARGUMENTS(PLAIN, a->rope_base = 10000, "rope_base is given, and this kernel rotates nothing");
    ARGUMENTS(PLAIN, a->rope_sin = sine, "rope_sin is given, and this kernel rotates nothing");
    ARGUMENTS(ROTATE, a->rope_base = -2, "rope_base is -2, expected a finite number of at least 1; 0 = 10000");
    ARGUMENTS(TABLES, (a->rope_cos = cosine, a->rope_sin = sine, a->rope_rows = CAPACITY - 1),
              "rope_rows is 19, expected a row for each of the positions, len_kv = 20");
    ARGUMENTS(TABLES, (a->rope_cos = cosine, a->rope_rows = CAPACITY), "rope_sin is null");
    ARGUMENTS("layout=ragged page_size=4", (void)0, "k_new is given, and this kernel takes none");
    ARGUMENTS("layout=ragged page_size=4", a->k_new.data = NULL, "v_new is given, and this kernel takes none");
    ARGUMENTS("layout=ragged page_size=4", (a->k_new.data = a->v_new.data = NULL, a->rope_cos = cosine),
              "rope_cos is given, and this kernel rotates nothing; problems with append=1 and rope do");
}

Test(new_tokens, parameters_are_what_was_passed) {
    struct arguments out;
    char message[512];
    struct att_args args = ragged();
    args.attention.rope_base = 500000;
    args.attention.k_new.batch_stride = 7; /* packed: there is none */
    cr_assert_eq(read(ROTATE, &args, &out, message), ATT_OK, "%s", message);
    const struct attention_params *p = &out.params.attention;
    cr_expect(p->k_new == k_new && p->v_new == v_new);
    cr_expect(p->k_new_batch_stride == 0 && p->k_new_head_stride == D && p->v_new_row_stride == KV * D);
    cr_expect_eq(p->rope_row_stride, D / 2);
    struct knobs knobs = {.layout = layout_ragged, .append = 1, .splits = 1};
    struct attention_params packed = *p;
    size_t begin = offsetof(struct attention_params, k_new), turns = offsetof(struct attention_params, rope_turns);
    size_t sequences =
               offsetof(struct attention_params, dropout_state) - offsetof(struct attention_params, cu_seqlens_q),
           before = offsetof(struct attention_params, splits) + sequences;
    cr_expect_eq(arguments_pack(&knobs, &packed), before + turns - begin, "without an embedding there are no turns");
    cr_expect_eq(memcmp((const char *)&packed + before, &p->k_new, turns - begin), 0);
    knobs.rope = rope_halves;
    packed = *p;
    cr_expect_eq(arguments_pack(&knobs, &packed), before + turns - begin + sizeof p->rope_turns);
    cr_expect_eq(memcmp((const char *)&packed + before + turns - begin, p->rope_turns, sizeof p->rope_turns), 0);
}

Test(new_tokens, what_cannot_be_is_refused_before_anything_is_compiled) {
    static const struct {
        const char *problem, *schedule, *words;
    } cases[] = {
        {"append=1 layout=padded", "algorithm=flash_mma", "append == 0 or algorithm == decode does not hold"},
        {"append=1 layout=padded dtype=fp32", NULL, "dtype != fp32 does not hold"},
        {"append=1", "algorithm=decode", "append == 0 or (layout == padded or page_size > 0) does not hold"},
        {"append=1 layout=ragged", "algorithm=decode", "append == 0 or (layout == padded or page_size > 0)"},
        {"rope=halves layout=padded", "algorithm=decode", "rope == none or append == 1 does not hold"},
        {"append=1 layout=padded rope_dim=8", "algorithm=decode", "rope != none or (rope_dim == 0"},
        {"append=1 layout=padded dtype_kv=e4m3", "algorithm=decode", "quantised == 0 and shared_kv == 0"},
        {"append=1 layout=padded shared_kv=1", "algorithm=decode", "quantised == 0 and shared_kv == 0"},
        {"append=1 layout=padded rope=halves rope_dim=24", "algorithm=decode", "half % 8 == 0"},
        {"append=1 layout=padded rope=halves rope_dim=7", "algorithm=decode", "rope_dim % 2 == 0"},
        {"append=1 layout=padded rope=halves rope_dim=66", "algorithm=decode", "rope_dim <= head_dim"},
        {"append=1 layout=padded rope=interleaved head_dim=63", "algorithm=decode", "head_dim % 2 == 0"},
        {"append=1 layout=padded rope=interleaved head_dim=272", "algorithm=decode", "half <= 128"},
    };
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[160];
        att_kernel *kernel;
        snprintf(problem, sizeof problem, "family=attention_forward target=sm_80 %s %s",
                 strstr(cases[i].problem, "dtype=") ? "" : "dtype=bf16", cases[i].problem);
        cr_expect_eq(att_find(session, problem, cases[i].schedule, &kernel), ATT_UNSUPPORTED, "%s", problem);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", problem, att_message(session));
    }
    att_close(session);
}

Test(new_tokens, the_choice_is_the_kernel_that_writes_them) {
    att_session *session = run_open();
    char text[4096];
    size_t needed;
    cr_expect_eq(att_explain(session,
                             "family=attention_forward dtype=bf16 target=sm_80 append=1 layout=padded len_q=64 heads=8",
                             NULL, text, sizeof text, &needed),
                 ATT_OK, "%s", att_message(session));
    cr_expect(strstr(text, "decode"), "%s", text);
    att_close(session);
}

/* --- bits -------------------------------------------------------------------------------------------------------- */

enum { SEQUENCES = 4, MOST = 3, ROOM = 160, KEYS = 16, TABLE = ROOM / KEYS, ALL = SEQUENCES * TABLE };
enum { HEADS = 10, SHARED = 2, DIM = 64, TOKENS = SEQUENCES * MOST };

/* One step of several sequences. Where all have equally many queries, the second has fewer keys than queries. */
static const int32_t own_lengths[SEQUENCES] = {40, 1, 0, 130}, own_tokens[SEQUENCES + 1] = {0, 3, 4, 4, 6};

struct step {
    uint16_t *q, *k_new, *v_new, *cache, *o;
    int32_t *lengths, *cu_seqlens, *table;
};

enum { Q_SIZE = TOKENS * HEADS * DIM, NEW_SIZE = TOKENS * SHARED * DIM, CACHE_SIZE = 2 * ALL * SHARED * KEYS * DIM };

static void *on_device(att_session *session, const void *from, size_t bytes) {
    void *memory;
    cr_assert_eq(att_alloc(session, bytes, &memory), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory, from, bytes), ATT_OK);
    return memory;
}

static uint16_t *numbers(att_session *session, size_t count, unsigned seed) {
    static uint16_t host[CACHE_SIZE];
    cr_assert(count <= CACHE_SIZE);
    for (size_t i = 0; i < count; i++) { /* about 2^-7 to 2 */
        seed = seed * 1664525 + 1013904223;
        host[i] = (uint16_t)(0x3c00 | seed >> 23 | (seed & 1) << 15);
    }
    return on_device(session, host, count * sizeof *host);
}

static struct step make_step(att_session *session) {
    int32_t pages[ALL];
    for (int i = 0; i < ALL; i++)
        pages[i] = i * 7 % ALL;
    return (struct step){.q = numbers(session, Q_SIZE, 1),
                         .k_new = numbers(session, NEW_SIZE, 2),
                         .v_new = numbers(session, NEW_SIZE, 3),
                         .cache = numbers(session, CACHE_SIZE, 4),
                         .o = numbers(session, Q_SIZE, 5),
                         .lengths = on_device(session, own_lengths, sizeof own_lengths),
                         .cu_seqlens = on_device(session, own_tokens, sizeof own_tokens),
                         .table = on_device(session, pages, sizeof pages)};
}

/* Tensor (tokens, heads, DIM), packed or not. */
static struct att_tensor rows(uint16_t *at, int heads) {
    return (struct att_tensor){at, (int64_t)MOST * heads * DIM, DIM, (int64_t)heads * DIM};
}

static struct att_attention_args attention_of(const struct step *s, bool packed, bool paged) {
    int64_t tokens_of_block = paged ? KEYS : ROOM;
    struct att_tensor k = {s->cache, SHARED * tokens_of_block * DIM, tokens_of_block * DIM, DIM}, v = k;
    v.data = s->cache + CACHE_SIZE / 2;
    return (struct att_attention_args){.q = rows(s->q, HEADS),
                                       .o = rows(s->o, HEADS),
                                       .k = k,
                                       .v = v,
                                       .batch = SEQUENCES,
                                       .heads = HEADS,
                                       .kv_heads = SHARED,
                                       .len_q = MOST,
                                       .len_kv = ROOM,
                                       .lengths_kv = s->lengths,
                                       .cu_seqlens_q = packed ? s->cu_seqlens : NULL,
                                       .total_q = packed ? TOKENS : 0,
                                       .page_table = paged ? s->table : NULL,
                                       .pages = paged ? ALL : 0};
}

static void launch(att_session *session, att_kernel *kernel, struct att_args *args) {
    size_t bytes;
    args->size = sizeof *args;
    cr_assert_eq(att_workspace_size(kernel, args, &bytes), ATT_OK, "%s", att_message(session));
    if (bytes)
        cr_assert_eq(att_alloc(session, bytes, &args->workspace), ATT_OK);
    args->workspace_size = bytes;
    cr_assert_eq(att_launch(kernel, args, NULL), ATT_OK, "%s", att_message(session));
    att_free(session, args->workspace);
}

static void append_then_attend(att_session *session, const struct step *s, const char *layout, const char *rope) {
    char problem[256];
    bool packed = strstr(layout, "ragged"), paged = strstr(layout, "page_size");
    struct att_args args = {.family = ATT_ATTENTION_FORWARD, .attention = attention_of(s, packed, paged)};
    const struct att_attention_args *a = &args.attention;
    struct att_args append = {.family = ATT_APPEND_KV,
                              .append = {.q = a->q,
                                         .q_out = a->q,
                                         .k = rows(s->k_new, SHARED),
                                         .v = rows(s->v_new, SHARED),
                                         .k_cache = a->k,
                                         .v_cache = a->v,
                                         .batch = SEQUENCES,
                                         .heads = HEADS,
                                         .kv_heads = SHARED,
                                         .len_q = MOST,
                                         .len_kv = ROOM,
                                         .cu_seqlens_q = a->cu_seqlens_q,
                                         .total_q = a->total_q,
                                         .lengths_kv = a->lengths_kv,
                                         .page_table = a->page_table,
                                         .pages = a->pages}};
    snprintf(problem, sizeof problem, "family=append_kv dtype=bf16 target=sm_80 %s %s", layout, rope);
    launch(session, run_find(session, problem, NULL), &append);
    snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 target=sm_80 mask=causal %s", layout);
    launch(session, run_find(session, problem, "algorithm=decode"), &args);
}

static void append_and_attend(att_session *session, const struct step *s, const char *layout, const char *rope) {
    char problem[256];
    struct att_args args = {.family = ATT_ATTENTION_FORWARD,
                            .attention = attention_of(s, strstr(layout, "ragged"), strstr(layout, "page_size"))};
    args.attention.k_new = rows(s->k_new, SHARED);
    args.attention.v_new = rows(s->v_new, SHARED);
    snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 target=sm_80 mask=causal append=1 %s %s",
             layout, rope);
    launch(session, run_find(session, problem, "algorithm=decode"), &args);
}

/* Runs one launch, or two. `bits` gets the cache and O. */
static void run(uint64_t seed, const char *layout, const char *rope, bool fused, uint16_t *bits) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_seed = seed, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    struct step step = make_step(session);
    (fused ? append_and_attend : append_then_attend)(session, &step, layout, rope);
    cr_assert_eq(att_copy_out(session, bits, step.cache, CACHE_SIZE * sizeof *bits), ATT_OK);
    cr_assert_eq(att_copy_out(session, bits + CACHE_SIZE, step.o, Q_SIZE * sizeof *bits), ATT_OK);
    void *const memory[] = {step.q, step.k_new,   step.v_new,      step.cache,
                            step.o, step.lengths, step.cu_seqlens, step.table};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        att_free(session, memory[i]);
    att_close(session);
}

Test(new_tokens, bits_are_those_of_append_kv_and_decode_in_turn) {
    static const struct {
        const char *layout, *rope;
    } cases[] = {{"layout=ragged page_size=16", "rope=halves"},
                 {"layout=ragged page_size=16", "rope=interleaved rope_dim=24"},
                 {"layout=padded", "rope=halves rope_dim=32"},
                 {"layout=padded page_size=16", ""}};
    static uint16_t one[CACHE_SIZE + Q_SIZE], two[CACHE_SIZE + Q_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 0; seed < 3; seed++) { /* the seed moves the ends of runs */
            run(seed, cases[i].layout, cases[i].rope, false, two);
            run(seed, cases[i].layout, cases[i].rope, true, one);
            cr_expect_eq(memcmp(one, two, CACHE_SIZE * sizeof *one), 0, "cache: %s %s, seed %d", cases[i].layout,
                         cases[i].rope, (int)seed);
            cr_expect_eq(memcmp(one + CACHE_SIZE, two + CACHE_SIZE, Q_SIZE * sizeof *one), 0, "O: %s %s, seed %d",
                         cases[i].layout, cases[i].rope, (int)seed);
        }
}
