/* attention_backward_mma.cu, one kernel for dQ, dK and dV: shares of columns, tensors at any address, bits that do not
   vary. specs/attention_backward_mma.yaml has more problems, and separate kernels. */
#include "attile.h"
#include "check.h"
#include "session.h"
#include "workload.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static att_session *open_host(uint64_t seed) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_seed = seed, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    return session;
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    char text[256], knobs[128];
    att_kernel *kernel;
    snprintf(text, sizeof text, "family=attention_backward dtype=bf16 %s", problem);
    snprintf(knobs, sizeof knobs, "algorithm=flash_mma %s", schedule);
    cr_assert_eq(att_find(session, text, knobs, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

Test(backward_mma, shares_of_columns_make_the_gradients) {
    static const char *const cases[][2] = {
        {"target=sm_90 head_dim=96 head_dim_v=64 mask=causal", ""},  /* steps of 16 in turn */
        {"target=sm_80 head_dim=96 mask=none", "stages=2"},          /* for dQ, too */
        {"target=sm_90 head_dim=192 head_dim_v=64 mask=causal", ""}, /* six warps share dQ */
        {"target=sm_80 head_dim=64 head_dim_v=256 mask=none", ""},   /* four share dK and dV */
        {"target=sm_90 head_dim=128 mask=causal dropout=1", "block_m=64 block_n=128 threads=256"},
        {"target=sm_80 head_dim=64 head_dim_v=32 mask=causal", "block_m=32 block_n=64 threads=128"},
    };
    static const struct shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 150, .len_kv = 170};
    att_session *session = open_host(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct check_options options = {.layout = LAYOUT_SPREAD, .shown = 3};
        att_kernel *kernel = find(session, cases[i][0], cases[i][1]);
        struct workload workload;
        struct check_result result;
        struct text error = {0};
        cr_assert_eq(kernel->variant.knobs.deterministic, 0);
        cr_assert(workload_make(&workload, &kernel->variant.knobs, &shape, NULL, 1, &error), "%s", text_string(&error));
        cr_expect(check_run(session, kernel, &workload, &options, &result), "%s\n%s", att_kernel_name(kernel),
                  text_string(&result.report));
        check_free(&result);
        workload_free(&workload);
    }
    att_close(session);
}

/* --- the same values at other addresses, and in another order ------------------------------------------------------- */

enum { H = 2, LQ = 150, LK = 200, D = 64, ROWS = H * LK, WIDEST = D + 3, ELEMENTS = ROWS * WIDEST + 8 };
enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

/* Rows of every tensor begin at element `first` and are `stride` elements apart. */
struct rows {
    int first, stride;
};

static const struct rows together = {0, D}, apart = {1, WIDEST};

static void *device(att_session *session, const void *from, size_t bytes) {
    void *to;
    cr_assert_eq(att_alloc(session, bytes, &to), ATT_OK);
    cr_assert_eq(att_copy_in(session, to, from, bytes), ATT_OK);
    return to;
}

static struct att_tensor tensor(uint16_t *data, struct rows rows, int count) {
    return (struct att_tensor){data + rows.first, H * count * rows.stride, count * rows.stride, rows.stride};
}

/* Computes dQ, dK and dV. One value of Q is NaN if `strange`. */
static void run(att_session *session, const char *problem, struct rows rows, bool strange, uint16_t out[3][ROWS * D]) {
    static uint16_t values[ELEMENTS];
    static float lse[H * LQ];
    static char workspace[1 << 20];
    att_kernel *kernel = find(session, problem, "");
    uint16_t *data[TENSORS];
    unsigned random = 1;
    for (int i = 0; i < TENSORS; i++) {
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < D; column++) {
                float x = (float)((random = random * 1664525 + 1013904223) >> 8) / 0x1p23f - 1;
                uint32_t bits;
                memcpy(&bits, &x, 4);
                values[rows.first + row * rows.stride + column] = (uint16_t)(bits >> 16);
            }
        if (strange && i == Q)
            values[rows.first + 100 * rows.stride + 7] = 0x7fc0;
        data[i] = device(session, values, sizeof values);
    }
    for (int i = 0; i < H * LQ; i++)
        lse[i] = 5;
    memset(workspace, 0xff, sizeof workspace); /* NaN: the kernel must clear what has to be zero */
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_BACKWARD,
                            .workspace = device(session, workspace, sizeof workspace),
                            .workspace_size = sizeof workspace,
                            .attention_backward = {.d_o = tensor(data[D_O], rows, LQ),
                                                   .dq = tensor(data[DQ], rows, LQ),
                                                   .dk = tensor(data[DK], rows, LK),
                                                   .dv = tensor(data[DV], rows, LK),
                                                   .forward = {.q = tensor(data[Q], rows, LQ),
                                                               .k = tensor(data[K], rows, LK),
                                                               .v = tensor(data[V], rows, LK),
                                                               .o = tensor(data[O], rows, LQ),
                                                               .lse = device(session, lse, sizeof lse),
                                                               .batch = 1,
                                                               .heads = H,
                                                               .kv_heads = H,
                                                               .len_q = LQ,
                                                               .len_kv = LK}}};
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(att_copy_out(session, values, data[DQ + i], sizeof values), ATT_OK);
        for (int row = 0; row < ROWS; row++)
            memcpy(out[i] + row * D, values + rows.first + row * rows.stride, D * sizeof **out);
    }
    for (int i = 0; i < TENSORS; i++)
        att_free(session, data[i]);
    att_free(session, args.workspace);
    att_free(session, args.attention_backward.forward.lse);
}

/* The same; the seed decides the order of the host device's threads. */
static void run_in_order(const char *problem, uint64_t seed, uint16_t out[3][ROWS * D]) {
    att_session *session = open_host(seed);
    run(session, problem, together, false, out);
    att_close(session);
}

/* Compares H * LQ rows of queries and H * LK rows of keys. The host device adds dQ in a fixed order. */
static void expect_same(uint16_t found[3][ROWS * D], uint16_t right[3][ROWS * D], const char *what) {
    static const char *const names[3] = {"dQ", "dK", "dV"};
    for (int i = 0; i < 3; i++)
        cr_expect_arr_eq(found[i], right[i], sizeof(uint16_t) * H * (i == 0 ? LQ : LK) * D, "%s, %s", names[i], what);
}

Test(backward_mma, tensors_begin_anywhere) {
    static const char problem[] = "head_dim=64 mask=causal target=sm_80";
    static uint16_t right[3][ROWS * D], out[3][ROWS * D];
    att_session *session = open_host(0);
    for (int strange = 0; strange < 2; strange++) {
        run(session, problem, together, strange, right);
        run(session, problem, apart, strange, out);
        expect_same(out, right, strange ? "a NaN" : "finite");
    }
    att_close(session);
}

Test(backward_mma, adds_dq_alone_in_an_order_that_varies) {
    static uint16_t first[3][ROWS * D], out[3][ROWS * D];
    run_in_order("head_dim=64 mask=causal target=sm_90", 0, first);
    run_in_order("head_dim=64 mask=causal target=sm_90", 1, out);
    cr_expect_arr_eq(out[1], first[1], 2 * sizeof out[1]);
}

Test(backward_mma, gives_the_same_bits_in_any_order_where_the_problem_says_so) {
    static uint16_t first[3][ROWS * D], out[3][ROWS * D];
    run_in_order("head_dim=64 mask=causal target=sm_80 deterministic=1", 0, first);
    run_in_order("head_dim=64 mask=causal target=sm_80 deterministic=1", 1, out);
    expect_same(out, first, "another order");
}
