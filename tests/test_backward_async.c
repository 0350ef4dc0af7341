/* attention_backward_async.cu: bits that do not vary where the problem asks for that, tensors that TMA cannot take, and
   what it refuses. The sweep (specs/attention_backward_async.yaml) checks that the numbers are right, except for the
   tests of many tiles and of items in parts. */
#include "attile.h"
#include "check.h"
#include "helper_folder.h"
#include "session.h"
#include "workload.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_ROWS "family=attention_backward dtype=bf16 head_dim=128 target=sm_90a "
#define PROBLEM   "family=attention_backward dtype=bf16 head_dim=64 mask=causal target=sm_90a "

enum { H = 2, LQ = 150, LK = 300, D = 64, MOST_D = 256, ROWS = H * LK, BYTES = 4 * ROWS * MOST_D, WORKSPACE = 1 << 20 };
enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

TestSuite(backward_async, .init = folder_enter, .fini = folder_leave);

/* Sessions with different seeds find what the first of a test has compiled. */
static att_session *open_host(uint64_t seed) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_seed = seed, .cache_dir = folder_path()};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    return session;
}

static att_kernel *find(att_session *session, const char *problem) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, "algorithm=flash_async", &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

/* All memory belongs to the session; clear() frees it. */
struct problem {
    uint16_t *data[TENSORS];
    struct att_args args;
};

static struct att_tensor tensor(uint16_t *data, int rows, int head_dim) {
    return (struct att_tensor){data, H * rows * head_dim, rows * head_dim, head_dim};
}

static void *device(att_session *session, const void *from, size_t bytes) {
    void *to;
    cr_assert_eq(att_alloc(session, bytes, &to), ATT_OK);
    cr_assert_eq(att_copy_in(session, to, from, bytes), ATT_OK);
    return to;
}

static void make(att_session *session, struct problem *p, int head_dim) {
    static uint16_t values[2 * ROWS * MOST_D];
    static float lse[H * LQ];
    static char workspace[WORKSPACE];
    unsigned seed = 1;
    for (int i = 0; i < TENSORS; i++) {
        for (int j = 0; j < ROWS * MOST_D; j++) {
            float x = (float)((seed = seed * 1664525 + 1013904223) >> 8) / 0x1p23f - 1;
            uint32_t bits;
            memcpy(&bits, &x, 4);
            values[j] = (uint16_t)(bits >> 16);
        }
        p->data[i] = device(session, values, BYTES);
    }
    for (int i = 0; i < H * LQ; i++)
        lse[i] = 5;
    memset(workspace, 0xff, sizeof workspace); /* NaN: the kernel must clear what has to be zero */
    p->args = (struct att_args){.size = sizeof p->args,
                                .family = ATT_ATTENTION_BACKWARD,
                                .workspace = device(session, workspace, sizeof workspace),
                                .workspace_size = sizeof workspace,
                                .attention_backward = {.d_o = tensor(p->data[D_O], LQ, head_dim),
                                                       .dq = tensor(p->data[DQ], LQ, head_dim),
                                                       .dk = tensor(p->data[DK], LK, head_dim),
                                                       .dv = tensor(p->data[DV], LK, head_dim),
                                                       .forward = {.q = tensor(p->data[Q], LQ, head_dim),
                                                                   .k = tensor(p->data[K], LK, head_dim),
                                                                   .v = tensor(p->data[V], LK, head_dim),
                                                                   .o = tensor(p->data[O], LQ, head_dim),
                                                                   .lse = device(session, lse, sizeof lse),
                                                                   .batch = 1,
                                                                   .heads = H,
                                                                   .kv_heads = H,
                                                                   .len_q = LQ,
                                                                   .len_kv = LK}}};
}

static void clear(att_session *session, const struct problem *p) {
    for (int i = 0; i < TENSORS; i++)
        att_free(session, p->data[i]);
    att_free(session, p->args.workspace);
    att_free(session, p->args.attention_backward.forward.lse);
}

/* Bits in which another order of additions shows: of gradients in fp32, or of the sums of dQ in the workspace. */
struct result {
    uint32_t gradients[3][ROWS * MOST_D];
    char workspace[WORKSPACE];
};

/* Computes dQ, dK and dV; the seed decides the order of the host device's threads. */
static void run(const char *problem, int head_dim, uint64_t seed, struct result *result) {
    att_session *session = open_host(seed);
    struct problem p;
    make(session, &p, head_dim);
    cr_assert_eq(att_launch(find(session, problem), &p.args, NULL), ATT_OK, "%s", att_message(session));
    for (int i = 0; i < 3; i++)
        cr_assert_eq(att_copy_out(session, result->gradients[i], p.data[DQ + i], BYTES), ATT_OK);
    cr_assert_eq(att_copy_out(session, result->workspace, p.args.workspace, WORKSPACE), ATT_OK);
    clear(session, &p);
    att_close(session);
}

Test(backward_async, gives_the_same_bits_in_any_order_where_the_problem_says_so) {
    static const struct {
        const char *problem;
        int head_dim;
        bool has_fp32; /* if not, three numbers and the sums of dQ for 192 queries of each head are compared, too */
    } cases[] = {
        {PROBLEM "dtype_out=fp32 deterministic=1", D, true},
        {"family=attention_backward dtype=bf16 head_dim=64 target=sm_90a dtype_out=fp32 deterministic=1", D, true},
        {"family=attention_backward dtype=bf16 head_dim=96 target=sm_90a dtype_out=fp32 deterministic=1", 96, true},
        {LONG_ROWS "dtype_out=fp32 deterministic=1", 128, true},
        {"family=attention_backward dtype=bf16 head_dim=136 mask=causal target=sm_90a deterministic=1", 136, false},
        {"family=attention_backward dtype=bf16 head_dim=192 target=sm_90a deterministic=1", 192, false},
        {"family=attention_backward dtype=bf16 head_dim=256 mask=causal target=sm_90a deterministic=1", 256, false},
        {"family=attention_backward dtype=bf16 head_dim=256 target=sm_90a deterministic=1", 256, false},
    }; /* without a mask, tiles of one head come side by side */
    static struct result first, other;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t compared = cases[i].has_fp32 ? 0 : 4 * H * 192 * (3 + (size_t)cases[i].head_dim);
        run(cases[i].problem, cases[i].head_dim, 0, &first);
        for (uint64_t seed = 1; seed < 5; seed++) {
            run(cases[i].problem, cases[i].head_dim, seed, &other);
            cr_expect_arr_eq(other.gradients, first.gradients, sizeof first.gradients, "head_dim %d, seed %d",
                             cases[i].head_dim, (int)seed);
            cr_expect_arr_eq(other.workspace, first.workspace, compared, "head_dim %d, seed %d", cases[i].head_dim,
                             (int)seed);
        }
    }
}

/* One block alone sums its dK and dV. */
Test(backward_async, adds_dq_alone_in_an_order_that_varies) {
    static struct result first, other;
    run(PROBLEM "dtype_out=fp32", D, 0, &first);
    for (uint64_t seed = 1; seed < 5; seed++) {
        run(PROBLEM "dtype_out=fp32", D, seed, &other);
        cr_expect_arr_eq(other.gradients[1], first.gradients[1], 2 * sizeof first.gradients[1], "seed %d", (int)seed);
    }
}

Test(backward_async, refuses_tensors_that_tma_cannot_take) {
    att_session *session = open_host(0);
    att_kernel *kernel = find(session, PROBLEM);
    struct problem p;
    make(session, &p, D);
    p.args.attention_backward.d_o.data = p.data[D_O] + 4;
    cr_expect_eq(att_launch(kernel, &p.args, NULL), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "d_o: address"), "%s", att_message(session));
    cr_expect(strstr(att_message(session), "not aligned to 16 bytes"), "%s", att_message(session));
    p.args.attention_backward.d_o.data = p.data[D_O];
    p.args.attention_backward.d_o.row_stride = D + 4;
    cr_expect_eq(att_launch(kernel, &p.args, NULL), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "d_o: row_stride is 68 elements"), "%s", att_message(session));
    p.args.attention_backward.d_o.row_stride = D;
    p.args.workspace_size = 1000;
    cr_expect_eq(att_launch(kernel, &p.args, NULL), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "workspace: it has 1000 bytes"), "%s", att_message(session));
    clear(session, &p);
    att_close(session);
}

Test(backward_async, says_what_it_cannot_do) {
    static const struct {
        const char *problem, *schedule, *words;
    } cases[] = {
        {"family=attention_backward dtype=fp32 target=sm_90a", "algorithm=flash_async", "dtype is fp32"},
        {"family=attention_backward dtype=bf16 target=sm_80", "algorithm=flash_async", "target is sm_80"},
        {"family=attention_backward dtype=bf16 head_dim=60 target=sm_90a", "algorithm=flash_async", "head_dim is 60"},
        {PROBLEM, "algorithm=flash_async block_n=64", "block_n is 64"},
        {"family=attention_backward dtype=bf16 head_dim=128 target=sm_90a", "algorithm=flash_async block_m=128",
         "block_m is 128"},
        {"family=attention_backward dtype=bf16 head_dim=128 target=sm_90a", "algorithm=flash_async overlap=both",
         "overlap is both"},
        {PROBLEM "deterministic=2", "algorithm=flash_async", "deterministic"},
        {"family=attention_forward dtype=bf16 deterministic=1 target=sm_90a", "algorithm=flash_async",
         "deterministic is given as 1"},
    };
    att_session *session = open_host(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_kernel *kernel;
        cr_expect_neq(att_find(session, cases[i].problem, cases[i].schedule, &kernel), ATT_OK, "%s", cases[i].schedule);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", cases[i].words, att_message(session));
    }
    att_close(session);
}

/* Checks the gradients of one problem against the oracle. */
static void check_shape(const char *problem, const char *schedule, const struct shape *shape, uint64_t seed) {
    const struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    att_session *session = open_host(seed);
    att_kernel *kernel;
    struct workload workload;
    struct check_result result;
    struct text error = {0};
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert(workload_make(&workload, &kernel->variant.knobs, shape, NULL, 1, &error), "%s", text_string(&error));
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s, seed %d\n%s", att_kernel_name(kernel),
              (int)seed, text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

/* Above d 96, V of an item arrives when the last product with V of the one before has ended, also where no query sees the
   item; and dQ goes to memory in two parts of columns, of which the second may be narrower. */
Test(backward_async, long_rows_have_the_same_gradients) {
    static const struct {
        int head_dim, head_dim_v;
        const char *problem;
        struct shape shape;
    } cases[] = {
        {128, 128, "mask=causal", {.batch = 1, .heads = 4, .kv_heads = 2, .len_q = 300, .len_kv = 333}},
        {104, 104, "mask=causal", {.batch = 1, .heads = 3, .kv_heads = 3, .len_q = 600, .len_kv = 100}},
        {104, 128, "mask=none", {.batch = 2, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 400}},
        {128, 64, "mask=causal", {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 130, .len_kv = 500}},
        {64, 128, "mask=none dtype=fp16", {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 130, .len_kv = 300}},
        {120, 120, "mask=causal layout=ragged", {.batch = 3, .heads = 4, .kv_heads = 1, .len_q = 150, .len_kv = 150}},
        {112, 112, "mask=causal layout=padded", {.batch = 3, .heads = 2, .kv_heads = 2, .len_q = 150, .len_kv = 300}},
        {104, 104, "mask=causal deterministic=1", {.batch = 1, .heads = 4, .kv_heads = 2, .len_q = 300, .len_kv = 500}},
        {64, 128, "mask=none deterministic=1", {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 130, .len_kv = 300}},
        {72, 96, "mask=none deterministic=1", {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 200, .len_kv = 300}},
        {96, 96, "mask=causal deterministic=1", {.batch = 1, .heads = 6, .kv_heads = 3, .len_q = 300, .len_kv = 500}},
        {128,
         128,
         "mask=causal layout=ragged deterministic=1",
         {.batch = 3, .heads = 2, .kv_heads = 2, .len_q = 150, .len_kv = 300}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            char problem[160];
            snprintf(problem, sizeof problem, "family=attention_backward %s head_dim=%d head_dim_v=%d target=sm_90a %s",
                     strstr(cases[i].problem, "dtype") ? "" : "dtype=bf16", cases[i].head_dim, cases[i].head_dim_v,
                     cases[i].problem);
            check_shape(problem, "algorithm=flash_async dq_in=dq_memory", &cases[i].shape, seed);
        }
}

/* In order, the first key tile stores dQ, and nothing clears the sums: those of queries that see no key are not set. Here they are
   finite, since a NaN would be summed again, and then right. */
Test(backward_async, queries_that_see_no_key_have_no_gradient_in_order) {
    static const struct {
        const char *mask;
        int len_kv;
    } cases[] = {{"none", 0}, {"causal", 10}};
    static const int head_dims[] = {64, 96, 104, 136, 256}; /* which add in as many ways */
    static uint16_t dq[H * LQ * MOST_D];
    static char garbage[WORKSPACE];
    memset(garbage, 0x71, sizeof garbage);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t d = 0; d < sizeof head_dims / sizeof *head_dims; d++) {
            const int head_dim = head_dims[d], unseen = LQ - cases[i].len_kv;
            char text[128];
            struct problem p;
            att_session *session = open_host(i);
            make(session, &p, head_dim);
            cr_assert_eq(att_copy_in(session, p.args.workspace, garbage, sizeof garbage), ATT_OK);
            p.args.attention_backward.forward.len_kv = cases[i].len_kv;
            snprintf(text, sizeof text,
                     "family=attention_backward dtype=bf16 head_dim=%d mask=%s target=sm_90a deterministic=1", head_dim,
                     cases[i].mask);
            cr_assert_eq(att_launch(find(session, text), &p.args, NULL), ATT_OK, "%s", att_message(session));
            cr_assert_eq(att_copy_out(session, dq, p.data[DQ], sizeof(uint16_t) * H * LQ * (size_t)head_dim), ATT_OK);
            int others = 0;
            for (int head = 0; head < H; head++)
                for (int k = 0; k < unseen * head_dim; k++)
                    others += (dq[head * LQ * head_dim + k] & 0x7fff) != 0;
            cr_expect_eq(others, 0, "%s: %d elements of dQ are not 0", text, others);
            clear(session, &p);
            att_close(session);
        }
}

/* More tiles than are ordered by length across heads (templates/backward/order_of_tiles.cuh). */
Test(backward_async, tiles_of_many_heads_are_all_computed) {
    static const struct {
        const char *words, *schedule;
        int heads; /* of two tiles each */
    } cases[] = {
        {"mask=causal target=sm_90a", "algorithm=flash_async", 400},
        {"mask=causal target=sm_90a", "algorithm=flash_async block_m=64", 400}, /* dQ in turn */
        {"mask=causal target=sm_90a deterministic=1", "algorithm=flash_async", 400},
        {"mask=causal target=sm_90a deterministic=1", "algorithm=flash_async block_m=64", 400},
        {"mask=causal target=sm_80", "algorithm=flash_mma", 400},
        {"mask='k <= q and q - k < 100' target=sm_90a", "algorithm=flash_async", 800},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct shape shape = {
            .batch = 4, .heads = cases[i].heads / 4, .kv_heads = cases[i].heads / 4, .len_q = 130, .len_kv = 130};
        char problem[128];
        snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 head_dim=8 %s", cases[i].words);
        check_shape(problem, cases[i].schedule, &shape, 0);
    }
    /* Queries that do not fit in the L2 cache: 33 heads take turns at the end; in order, all have two turns, of 41 and 40. */
    static const struct shape longer_rows = {.batch = 41, .heads = 1, .kv_heads = 1, .len_q = 511, .len_kv = 130};
    check_shape("family=attention_backward dtype=bf16 head_dim=256 target=sm_90a mask=causal", "algorithm=flash_async",
                &longer_rows, 0);
    static const struct shape long_rows = {.batch = 81, .heads = 1, .kv_heads = 1, .len_q = 511, .len_kv = 130};
    check_shape(LONG_ROWS "mask=causal deterministic=1", "algorithm=flash_async", &long_rows, 0);
}

/* Blocks share the steps of items (templates/backward/shares.cuh): of one item, of three, and of four whose
   lengths differ. The seeds give 4 and 3 multiprocessors. */
Test(backward_async, items_in_parts_have_the_same_gradients) {
    static const struct {
        const char *mask;
        struct shape shape;
    } cases[] = {
        {"none", {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 1500, .len_kv = 100}},
        {"none", {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 2000, .len_kv = 300}},
        {"causal", {.batch = 1, .heads = 8, .kv_heads = 1, .len_q = 500, .len_kv = 450}},
    };
    static const uint64_t seeds[] = {0, 4};
    static const int head_dims[] = {72, 104, 136}; /* warps, or warpgroups, join the parts */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t d = 0; d < sizeof head_dims / sizeof *head_dims; d++) {
            char problem[128];
            snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 head_dim=%d target=sm_90a mask=%s",
                     head_dims[d], cases[i].mask);
            check_shape(problem, "algorithm=flash_async", &cases[i].shape, seeds[(i + d) % 2]);
        }
}

/* What the queries read exceeds the L2 cache, and there are two blocks for each item: so each item has two parts, of 649 steps. */
Test(backward_async, items_in_equal_parts_have_the_same_gradients) {
    static const struct shape shape = {.batch = 1, .heads = 11, .kv_heads = 1, .len_q = 3776, .len_kv = 97};
    check_shape("family=attention_backward dtype=bf16 head_dim=136 target=sm_90a", "algorithm=flash_async", &shape, 0);
}

/* What the queries read exceeds the L2 cache, under a causal mask: so parts have two to four heads each, the last one fewer
   (templates/backward/shares_causal.cuh). */
Test(backward_async, items_in_parts_of_heads_have_the_same_gradients) {
    static const struct {
        int head_dim;
        struct shape shape;
    } cases[] = {
        {72, {.batch = 1, .heads = 10, .kv_heads = 1, .len_q = 7300, .len_kv = 300}},
        {104, {.batch = 1, .heads = 7, .kv_heads = 1, .len_q = 7230, .len_kv = 450}},
        {136, {.batch = 1, .heads = 7, .kv_heads = 1, .len_q = 5530, .len_kv = 300}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[128];
        snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 head_dim=%d target=sm_90a mask=causal",
                 cases[i].head_dim);
        check_shape(problem, "algorithm=flash_async", &cases[i].shape, 0);
    }
}

/* Consumers divide dQ into columns of 32. Up to 32 columns, the second one has none. With as many K/V heads as heads, nothing in the
   workspace is behind the sums of dQ, so an addition there is out of bounds. */
Test(backward_async, few_columns_have_the_same_gradients) {
    static const char *const problems[] = {"head_dim=24 head_dim_v=128",
                                           "head_dim=32 head_dim_v=104 mask=causal deterministic=1",
                                           "head_dim=32 score='softcap(30)'"};
    static const struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 100, .len_kv = 150};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        char problem[128];
        snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 target=sm_90a %s", problems[i]);
        check_shape(problem, "algorithm=flash_async dq_in=dq_memory", &shape, i);
    }
}

/* Two blocks of a cluster share an item. The multiprocessors of these seeds hold two, two, three and one cluster. */
Test(backward_async, clusters_have_the_same_gradients) {
    static const struct {
        const char *problem;
        struct shape shape;
    } cases[] = {
        {"dtype=bf16 mask=none", {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 1, .len_kv = 1}},
        {"dtype=fp16 mask=none",
         {.batch = 1, .heads = 3, .kv_heads = 1, .len_q = 130, .len_kv = 64}}, /* one block has no key */
        {"dtype=bf16 mask=none", {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 200, .len_kv = 333}}, /* 12 items */
        {"dtype=fp16 mask=none", {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 64, .len_kv = 500}},
        {"dtype=bf16 mask=none", {.batch = 3, .heads = 5, .kv_heads = 5, .len_q = 70, .len_kv = 129}},
        {"dtype=bf16 mask=causal", {.batch = 1, .heads = 6, .kv_heads = 3, .len_q = 300, .len_kv = 300}},
        {"dtype=fp16 mask=causal", {.batch = 2, .heads = 2, .kv_heads = 1, .len_q = 150, .len_kv = 420}},
        {"dtype=bf16 mask=causal", {.batch = 1, .heads = 3, .kv_heads = 3, .len_q = 420, .len_kv = 150}},
        {"dtype=bf16 mask=causal", {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 65, .len_kv = 1}},
        {"dtype=bf16 mask=none deterministic=1", {.batch = 2, .heads = 3, .kv_heads = 3, .len_q = 200, .len_kv = 333}},
        {"dtype=fp16 mask=causal deterministic=1",
         {.batch = 1, .heads = 6, .kv_heads = 3, .len_q = 300, .len_kv = 300}},
    };
    enum { SEEDS = 4 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[128];
        snprintf(problem, sizeof problem, "family=attention_backward target=sm_90a head_dim=256 %s", cases[i].problem);
        check_shape(problem, "algorithm=flash_async dq_in=dq_memory", &cases[i].shape, i % SEEDS);
    }
}

/* Few items for six multiprocessors, in kernels whose blocks share no steps: so parts have some of the heads that share keys, the last
   one fewer or as many (templates/backward/parts_of_items.cuh). */
Test(backward_async, few_items_in_parts_of_heads_have_the_same_gradients) {
    static const struct {
        const char *problem, *schedule;
        struct shape shape;
    } cases[] = {
        {"head_dim=200 mask=none", "", {.batch = 1, .heads = 5, .kv_heads = 1, .len_q = 300, .len_kv = 100}},
        {"head_dim=136 mask=causal",
         "block_n=128 dq_in=dq_registers",
         {.batch = 1, .heads = 12, .kv_heads = 1, .len_q = 200, .len_kv = 200}},
        {"head_dim=104 mask=causal",
         "dq_in=dq_registers",
         {.batch = 1, .heads = 7, .kv_heads = 1, .len_q = 500, .len_kv = 100}},
        {"head_dim=104 mask=causal deterministic=1",
         "dq_in=dq_memory",
         {.batch = 1, .heads = 7, .kv_heads = 1, .len_q = 600, .len_kv = 300}},
        {"head_dim=56 mask=none deterministic=1",
         "",
         {.batch = 1, .heads = 8, .kv_heads = 2, .len_q = 600, .len_kv = 100}},
        {"head_dim=72 layout=ragged mask=causal",
         "",
         {.batch = 2, .heads = 20, .kv_heads = 1, .len_q = 300, .len_kv = 300}},
        {"head_dim=136 layout=ragged mask=none",
         "block_n=96 dq_in=dq_memory",
         {.batch = 2, .heads = 5, .kv_heads = 1, .len_q = 900, .len_kv = 90}},
        {"head_dim=56 layout=padded mask=causal",
         "",
         {.batch = 2, .heads = 20, .kv_heads = 1, .len_q = 300, .len_kv = 300}},
        {"head_dim=72 mask='k <= q and q - k < window' params='window: int'",
         "",
         {.batch = 1, .heads = 7, .kv_heads = 1, .len_q = 500, .len_kv = 200}},
        {"head_dim=104 mask='causal and document(doc)' params='doc: int[batch, len_kv]'",
         "",
         {.batch = 1, .heads = 5, .kv_heads = 1, .len_q = 400, .len_kv = 400}},
        {"head_dim=56 layout=ragged mask='k <= q or k < prefix' params='prefix: int'",
         "",
         {.batch = 2, .heads = 20, .kv_heads = 1, .len_q = 300, .len_kv = 100}},
        {"head_dim=104 mask=causal score='alibi(slopes)' params='slopes: float[heads]'",
         "",
         {.batch = 1, .heads = 14, .kv_heads = 2, .len_q = 300, .len_kv = 100}},
        {"head_dim=72 dropout=1", "", {.batch = 1, .heads = 5, .kv_heads = 1, .len_q = 600, .len_kv = 100}},
        {"head_dim=72 score='s + values[h, q, k]' params='values: float[heads, len_q, len_kv]' wants='dq, dk, dv, "
         "d_values'",
         "",
         {.batch = 2, .heads = 24, .kv_heads = 2, .len_q = 140, .len_kv = 140}},
    };
    enum { SEED = 2 }; /* six multiprocessors */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256], schedule[64];
        snprintf(problem, sizeof problem, "family=attention_backward dtype=bf16 target=sm_90a %s", cases[i].problem);
        snprintf(schedule, sizeof schedule, "algorithm=flash_async %s", cases[i].schedule);
        check_shape(problem, schedule, &cases[i].shape, SEED);
    }
}
