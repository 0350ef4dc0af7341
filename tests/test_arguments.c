#include "arguments.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum {
    B = 2,
    H = 4,
    KV = 2,
    LQ = 5,
    LK = 7,
    D = 8,
    DV = 6,
    P = 3,
    ROWS = 4,
    COLS = 9,
    ROOM = 512 /* lets a test shift one array a little without reaching the next */
};

static float q[B * H * LQ * D + ROOM], k[B * KV * LK * D + ROOM], v[B * KV * LK * DV + ROOM], o[B * H * LQ * DV + ROOM],
    lse[B * H * LQ + ROOM];
static float o_parts[P * B * H * LQ * DV + ROOM], lse_parts[P * B * H * LQ + ROOM], x[ROWS * COLS + ROOM],
    y[ROWS * COLS + ROOM];
static _Alignas(256) char workspace[1024];

static struct knobs knobs_of(int family) {
    struct knobs knobs = knobs_default();
    knobs.family = family;
    knobs.dtype_out = dtype_out_fp32;
    knobs.head_dim = D;
    knobs.head_dim_v = DV;
    return knobs;
}

static struct att_args attention(void) {
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_FORWARD,
                             .attention = {.q = {q, H * LQ * D, LQ * D, D},
                                           .k = {k, KV * LK * D, LK * D, D},
                                           .v = {v, KV * LK * DV, LK * DV, DV},
                                           .o = {o, H * LQ * DV, LQ * DV, DV},
                                           .lse = lse,
                                           .batch = B,
                                           .heads = H,
                                           .kv_heads = KV,
                                           .len_q = LQ,
                                           .len_kv = LK}};
}

static struct att_args softmax(void) {
    return (struct att_args){
        .size = sizeof(struct att_args),
        .family = ATT_SOFTMAX,
        .softmax = {.x = x, .y = y, .x_row_stride = COLS, .y_row_stride = COLS, .rows = ROWS, .cols = COLS}};
}

static struct att_args merge(void) {
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_MERGE,
                             .merge = {.o_parts = {o_parts, H * LQ * DV, LQ * DV, DV},
                                       .o_parts_part_stride = B * H * LQ * DV,
                                       .lse_parts = lse_parts,
                                       .o = {o, H * LQ * DV, LQ * DV, DV},
                                       .lse = lse,
                                       .parts = P,
                                       .batch = B,
                                       .heads = H,
                                       .len_q = LQ}};
}

static void expect_good(int family, struct att_args args, const char *what) {
    struct knobs knobs = knobs_of(family);
    struct arguments arguments;
    struct failure failure = {0};
    cr_expect_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_OK, "%s: %s", what,
                 text_string(&failure.text));
    failure_clear(&failure);
}

/* The message must contain `words`: name, found, expected. */
static void expect_bad(int family, struct att_args args, const char *words) {
    struct knobs knobs = knobs_of(family);
    struct arguments arguments;
    struct failure failure = {0};
    cr_expect_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_INVALID_ARGUMENT, "accepted, expected: %s",
                 words);
    cr_expect(strstr(text_string(&failure.text), words), "expected \"%s\" in: %s", words, text_string(&failure.text));
    failure_clear(&failure);
}

#define GOOD(family, change)                                                                                           \
    do {                                                                                                               \
        struct att_args args = family();                                                                               \
        change;                                                                                                        \
        expect_good(family_of_##family, args, #change);                                                                \
    } while (0)
#define BAD(family, change, words)                                                                                     \
    do {                                                                                                               \
        struct att_args args = family();                                                                               \
        change;                                                                                                        \
        expect_bad(family_of_##family, args, words);                                                                   \
    } while (0)
enum {
    family_of_attention = family_attention_forward,
    family_of_softmax = family_softmax,
    family_of_merge = family_merge
};

Test(arguments, parameters_are_what_was_passed) {
    struct knobs knobs = knobs_of(family_attention_forward);
    struct att_args args = attention();
    struct arguments out;
    struct failure failure = {0};
    cr_assert_eq(arguments_read(&knobs, &args, &out, &failure), ATT_OK, "%s", text_string(&failure.text));
    const struct attention_params *p = &out.params.attention;
    cr_expect(p->q == q && p->k == k && p->v == v && p->o == o && p->lse == lse);
    cr_expect(p->batch == B && p->heads == H && p->kv_heads == KV && p->len_q == LQ && p->len_kv == LK);
    cr_expect(p->q_batch_stride == H * LQ * D && p->k_head_stride == LK * D && p->v_row_stride == DV);
    cr_expect(p->lse_head_stride == LQ && p->lse_batch_stride == H * LQ, "contiguous when left out");
    cr_expect_float_eq(p->scale, 1 / sqrtf(D), 1e-7f);
    struct attention_params packed = *p;
    cr_expect_eq(arguments_pack(&knobs, &packed), offsetof(struct attention_params, splits),
                 "without splits and expressions");
    cr_expect_not(out.empty);
    knobs.sinks = 1;
    packed.param[0].whole = 7;
    size_t size = arguments_pack(&knobs, &packed);
    cr_expect_eq(size, sizeof packed -
                           (offsetof(struct attention_params, param) - offsetof(struct attention_params, splits)));
    cr_expect_eq(
        ((const struct attention_param *)((const char *)&packed + offsetof(struct attention_params, splits)))->whole,
        7);
    knobs.splits = 0;
    packed.splits = 5;
    cr_expect_eq(arguments_pack(&knobs, &packed), sizeof packed - (offsetof(struct attention_params, param) -
                                                                   offsetof(struct attention_params, cu_seqlens_q)));
    cr_expect_eq(packed.splits, 5);
    knobs.sinks = 0;
    knobs.splits = 1;
    knobs.dropout = 1;
    packed = *p;
    packed.dropout_seed = 9;
    cr_expect_eq(arguments_pack(&knobs, &packed), offsetof(struct attention_params, splits) +
                                                      offsetof(struct attention_params, k_scale) -
                                                      offsetof(struct attention_params, dropout_state));
    const char *moved = (const char *)&packed + offsetof(struct attention_params, splits);
    cr_expect_eq(*(const unsigned long long *)(moved + offsetof(struct attention_params, dropout_seed) -
                                               offsetof(struct attention_params, dropout_state)),
                 9);
    knobs.dropout = 0;
    knobs.sinks = 0;
    knobs.splits = 1;
    args.attention.kv_heads = 0;
    args.attention.k = args.attention.q;
    args.attention.len_kv = LQ;
    args.attention.v = (struct att_tensor){v, 0, 0, DV};
    args.attention.scale = 0.25f;
    cr_assert_eq(arguments_read(&knobs, &args, &out, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_expect_eq(p->kv_heads, H);
    cr_expect_eq(p->scale, 0.25f);
}

Test(arguments, odd_but_possible_tensors_are_accepted) {
    GOOD(attention, args.attention.lse = NULL);
    GOOD(attention, args.attention.q.batch_stride = 0);                    /* broadcast input */
    GOOD(attention, args.attention.k = ((struct att_tensor){k, 0, 0, 0})); /* one key, repeated */
    GOOD(attention, args.attention.k.data = q);                            /* inputs may share memory */
    GOOD(attention,
         args.attention.o = ((struct att_tensor){o, H * LQ * DV, DV, H * DV})); /* (batch, len, heads, dim) */
    GOOD(attention, (args.attention.len_q = 0, args.attention.o.data = NULL, args.attention.q.data = NULL));
    GOOD(attention, (args.attention.len_kv = 0, args.attention.k.data = NULL, args.attention.v.data = NULL));
    GOOD(attention, (args.attention.batch = 1, args.attention.o.batch_stride = 0)); /* never stepped over */
    GOOD(attention, args.attention.scale = -1);
    GOOD(softmax, args.softmax.y = x); /* in place */
    GOOD(softmax, args.softmax.rows = 0);
    GOOD(softmax, (args.softmax.rows = 1, args.softmax.y_row_stride = 0));
    GOOD(merge, args.merge.parts = 0);
    GOOD(merge, (args.merge.parts = 0, args.merge.o_parts.data = NULL, args.merge.lse_parts = NULL));
    GOOD(merge, args.merge.lse = NULL);
}

/* The members of the union share memory, so args must not be read as those of another family. */
Test(arguments, those_of_another_family_are_refused) {
    BAD(attention, args.family = ATT_SOFTMAX, "args.family is 1, expected 2 (attention_forward)");
    BAD(softmax, args.family = ATT_MERGE, "args.family is 3, expected 1 (softmax)");
    BAD(merge, args.family = (enum att_family)0, "args.family is 0, expected 3 (merge)");
}

Test(arguments, bad_sizes_are_named_with_their_range) {
    BAD(attention, args.attention.batch = -1, "batch is -1, expected 1 to 2147482624");
    BAD(attention, args.attention.batch = 0, "batch is 0, expected 1 to");
    BAD(attention, args.attention.heads = 0, "heads is 0, expected 1 to");
    BAD(merge, args.merge.batch = 0, "batch is 0, expected 1 to");
    BAD(merge, args.merge.heads = 0, "heads is 0, expected 1 to");
    BAD(attention, args.attention.len_q = INT64_C(1) << 31, "len_q is 2147483648, expected 0 to 2147482624");
    BAD(attention, args.attention.len_kv = INT64_MIN, "len_kv is -9223372036854775808");
    BAD(attention, args.attention.heads = -4, "heads is -4");
    BAD(attention, args.attention.heads = (1 << 20) + 4, "heads is 1048580, expected 1 to 1048576 (");
    BAD(attention, args.attention.kv_heads = -2, "kv_heads is -2");
    BAD(attention, args.attention.kv_heads = 3, "kv_heads is 3, expected a divisor of heads, which is 4");
    BAD(attention, args.attention.kv_heads = 8, "kv_heads is 8, expected a divisor of heads, which is 4");
    BAD(attention, args.attention.scale = INFINITY, "scale is inf, expected a finite number");
    BAD(attention, args.attention.scale = NAN, "scale is");
    BAD(attention, args.attention.dropout_p = 0.1f, "dropout_p is 0.1, dropout_seed 0,");
    BAD(attention, args.attention.dropout_offset = 4, "dropout_offset 4 and dropout_state null, expected 0 and null");
    BAD(softmax, args.softmax.rows = -1, "rows is -1, expected 0");
    BAD(softmax, args.softmax.cols = -9, "cols is -9, expected 0");
    BAD(merge, args.merge.parts = -1, "parts is -1, expected 0");
    BAD(merge, args.merge.len_q = -1, "len_q is -1, expected 0");
}

Test(arguments, bad_pointers_are_named) {
    BAD(attention, args.attention.q.data = NULL,
        "q is null, expected a pointer to 320 elements; q has shape (batch 2, "
        "heads 4, len_q 5, head_dim 8) and strides (batch_stride 160, "
        "head_stride 40, row_stride 8)");
    BAD(attention, args.attention.k.data = NULL, "k is null");
    BAD(attention, args.attention.v.data = NULL, "v is null");
    BAD(attention, args.attention.o.data = NULL, "o is null");
    BAD(attention, args.attention.q.data = (char *)q + 2, "is not aligned to its elements of 4 bytes");
    BAD(attention, args.attention.lse = (float *)((char *)lse + 1), "lse: address");
    BAD(softmax, args.softmax.x = NULL, "x is null");
    BAD(softmax, args.softmax.y = NULL, "y is null");
    BAD(merge, args.merge.o_parts.data = NULL, "o_parts is null");
    BAD(merge, args.merge.lse_parts = NULL, "lse_parts is null");
    BAD(merge, args.merge.o.data = NULL, "o is null");
}

Test(arguments, bad_strides_are_named_with_the_shape) {
    BAD(attention, args.attention.q.row_stride = -8, "q: row_stride is -8, expected 0 or more; q has shape");
    BAD(attention, args.attention.v.batch_stride = -1, "v: batch_stride is -1");
    BAD(attention, args.attention.o.row_stride = DV - 1, "o: row_stride is 5, expected at least 6");
    BAD(attention, args.attention.o.head_stride = 0, "o: head_stride is 0, expected at least 6");
    BAD(attention, args.attention.o.batch_stride = H * LQ * DV - 1, "o: batch_stride is 119, expected at least 120");
    BAD(attention, (args.attention.lse_head_stride = LQ, args.attention.lse_batch_stride = LQ),
        "lse: lse_batch_stride is 5, expected at least 20");
    BAD(attention, args.attention.lse_batch_stride = 40, "lse: lse_head_stride is 0, expected at least 5");
    BAD(softmax, args.softmax.x_row_stride = -COLS, "x: x_row_stride is -9");
    BAD(softmax, args.softmax.y_row_stride = COLS - 1, "y: y_row_stride is 8, expected at least 9");
    BAD(merge, args.merge.o_parts_part_stride = -1, "o_parts: o_parts_part_stride is -1");
    BAD(merge, args.merge.lse_parts_head_stride = -1, "lse_parts: lse_parts_head_stride is -1");
}

Test(arguments, sizes_that_overflow_are_refused) {
    BAD(attention, args.attention.q.batch_stride = INT64_MAX, "q: its sizes and strides reach past the end");
    BAD(attention, args.attention.k.row_stride = INT64_MAX / 4, "k: its sizes and strides reach past the end");
    BAD(attention, args.attention.o.batch_stride = INT64_MAX - 100, "o: its sizes and strides");
    BAD(softmax, (args.softmax.rows = INT64_MAX, args.softmax.cols = INT64_MAX), "x: its sizes and strides");
    BAD(softmax, (args.softmax.rows = INT64_MAX, args.softmax.x_row_stride = 0), "x: its sizes and strides");
    BAD(merge, (args.merge.batch = 1 << 30, args.merge.heads = 1 << 30, args.merge.len_q = 1 << 30), "too many rows");
    BAD(attention, (args.attention.batch = 1 << 30, args.attention.heads = 1 << 20, args.attention.len_q = 1 << 30),
        "q:");
}

Test(arguments, outputs_need_memory_of_their_own) {
    BAD(attention, args.attention.o.data = q, "o overlaps q");
    BAD(attention, args.attention.o.data = k, "o overlaps k");
    BAD(attention, args.attention.o.data = v + 1, "o overlaps v");
    BAD(attention, args.attention.lse = o, "lse overlaps o");
    BAD(attention, args.attention.lse = q + 10, "lse overlaps q");
    BAD(softmax, args.softmax.y = x + COLS, "y overlaps x");
    BAD(softmax, (args.softmax.y = x, args.softmax.rows = 2, args.softmax.y_row_stride = COLS + 1), "y overlaps x");
    BAD(merge, args.merge.o.data = o_parts, "o overlaps o_parts");
    BAD(merge, args.merge.lse = lse_parts, "lse overlaps lse_parts");
}

/* Exact to the element: an output may begin right behind another tensor, but not at its last element. */
Test(arguments, outputs_may_begin_where_another_tensor_ends) {
    enum { SIZE = B * H * LQ * D, OUT = B * H * LQ * DV, LSE = B * H * LQ };
    static float both[SIZE + OUT + LSE];
    GOOD(attention, (args.attention.q.data = both, args.attention.o.data = both + SIZE));
    BAD(attention, (args.attention.q.data = both, args.attention.o.data = both + SIZE - 1), "o overlaps q");
    GOOD(attention, (args.attention.q.data = both + OUT, args.attention.o.data = both));
    BAD(attention, (args.attention.q.data = both + OUT - 1, args.attention.o.data = both), "o overlaps q");
    GOOD(attention, (args.attention.o.data = both, args.attention.lse = both + OUT));
    BAD(attention, (args.attention.o.data = both, args.attention.lse = both + OUT - 1), "lse overlaps o");
}

/* One block writes O while others still read Q. */
Test(arguments, attention_is_not_done_in_place) {
    struct knobs knobs = knobs_of(family_attention_forward);
    struct att_args args = attention();
    struct arguments arguments;
    struct failure failure = {0};
    knobs.head_dim = DV; /* then Q, with some columns left out, and O can be the same tensor */
    args.attention.o = args.attention.q;
    cr_expect_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "o overlaps q"), "%s", text_string(&failure.text));
    failure_clear(&failure);
}

Test(arguments, empty_outputs_are_recognised) {
    struct knobs knobs = knobs_of(family_attention_forward);
    struct att_args args = attention();
    struct shape shape;
    struct failure failure = {0};
    bool empty;
    args.attention.len_kv = 0;
    cr_expect_eq(arguments_read_sizes(&knobs, &args, &shape, &empty, &failure), ATT_OK);
    cr_expect_not(empty, "no keys still means rows of zeros");
    args.attention.len_q = 0;
    cr_expect_eq(arguments_read_sizes(&knobs, &args, &shape, &empty, &failure), ATT_OK);
    cr_expect(empty);
}

Test(arguments, workspace_is_checked) {
    struct knobs knobs = knobs_of(family_attention_forward);
    struct att_args args = attention();
    struct arguments arguments;
    struct failure failure = {0};
    cr_assert_eq(arguments_read(&knobs, &args, &arguments, &failure), ATT_OK);
    const struct {
        void *data;
        size_t size, need;
        const char *words; /* null = good */
    } cases[] = {{NULL, 0, 0, NULL},
                 {workspace, 1024, 1024, NULL},
                 {workspace, 1024, 512, NULL},
                 {NULL, 0, 512, "workspace: it is null with 0 bytes, expected 512"},
                 {NULL, 512, 512, "workspace: it is null"},
                 {workspace, 511, 512, "workspace: it has 511 bytes, expected 512"},
                 {workspace + 128, 512, 512, "is not aligned to 256 bytes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        args.workspace = cases[i].data;
        args.workspace_size = cases[i].size;
        enum att_status status = arguments_check_workspace(&arguments, &args, cases[i].need, &failure);
        cr_expect_eq(status, cases[i].words ? ATT_INVALID_ARGUMENT : ATT_OK, "case %zu", i);
        cr_expect(!cases[i].words || strstr(text_string(&failure.text), cases[i].words), "case %zu: %s", i,
                  text_string(&failure.text));
        failure_clear(&failure);
    }
    args.workspace = (void *)((uintptr_t)q & ~(uintptr_t)255);
    args.workspace_size = 4096;
    cr_expect_eq(arguments_check_workspace(&arguments, &args, 4096, &failure), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(text_string(&failure.text), "workspace overlaps "), "%s", text_string(&failure.text));
    failure_clear(&failure);
}
