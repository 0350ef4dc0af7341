#include "oracle.h"
#include "session.h"
#include "tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xcb };

/* Every test runs on the host device, and on the GPU where there is one. */
static const enum att_device devices[] = {ATT_DEVICE_HOST, ATT_DEVICE_CUDA};
enum { DEVICES = sizeof devices / sizeof *devices };

static att_session *open_device(enum att_device device) {
    const struct att_options options = {.size = sizeof options, .device = device, .no_disk_cache = 1};
    att_session *session;
    enum att_status status = att_open(&options, &session);
    if (status == ATT_NO_DEVICE && device == ATT_DEVICE_CUDA) {
        att_close(session);
        return NULL;
    }
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    return session;
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

static void *upload(att_session *session, const float *values, size_t count) {
    void *memory;
    cr_assert_eq(att_alloc(session, count * sizeof *values, &memory), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_copy_in(session, memory, values, count * sizeof *values), ATT_OK);
    return memory;
}

/* Device memory filled with a value no kernel writes by accident. */
static void *poisoned(att_session *session, size_t count) {
    float *values = malloc(count * sizeof *values + 1);
    memset(values, POISON, count * sizeof *values);
    void *memory = upload(session, values, count);
    free(values);
    return memory;
}

static void download(att_session *session, const void *memory, float *values, size_t count) {
    cr_assert_eq(att_copy_out(session, values, memory, count * sizeof *values), ATT_OK, "%s", att_message(session));
}

static bool is_poison(const float *values, size_t count) {
    const unsigned char *bytes = (const unsigned char *)values;
    for (size_t i = 0; i < count * sizeof *values; i++)
        if (bytes[i] != POISON)
            return false;
    return true;
}

static void fill(float *values, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

enum { B = 2, H = 4, KV = 2, LQ = 9, LK = 13, D = 24, DV = 20 };
#define ATTENTION "family=attention_forward head_dim=24 head_dim_v=20 mask=causal"

struct attention {
    float q[B * H * LQ * D], k[B * KV * LK * D], v[B * KV * LK * DV], o[B * H * LQ * DV], lse[B * H * LQ];
    struct att_args args;
};

static struct attention attention;

static void upload_attention(att_session *session, att_kernel *kernel) {
    struct attention *a = &attention;
    size_t workspace;
    fill(a->q, sizeof a->q / sizeof *a->q, 1);
    fill(a->k, sizeof a->k / sizeof *a->k, 2);
    fill(a->v, sizeof a->v / sizeof *a->v, 3);
    a->args = (struct att_args){.size = sizeof(struct att_args),
                                .family = ATT_ATTENTION_FORWARD,
                                .attention = {.q = {upload(session, a->q, B * H * LQ * D), H * LQ * D, LQ * D, D},
                                              .k = {upload(session, a->k, B * KV * LK * D), KV * LK * D, LK * D, D},
                                              .v = {upload(session, a->v, B * KV * LK * DV), KV * LK * DV, LK * DV, DV},
                                              .o = {poisoned(session, B * H * LQ * DV), H * LQ * DV, LQ * DV, DV},
                                              .lse = poisoned(session, B * H * LQ),
                                              .batch = B,
                                              .heads = H,
                                              .kv_heads = KV,
                                              .len_q = LQ,
                                              .len_kv = LK}};
    cr_assert_eq(att_workspace_size(kernel, &a->args, &workspace), ATT_OK, "%s", att_message(session));
    if (workspace) {
        cr_assert_eq(att_alloc(session, workspace, &a->args.workspace), ATT_OK);
        a->args.workspace_size = workspace;
    }
}

static void download_attention(att_session *session) {
    download(session, attention.args.attention.o.data, attention.o, B * H * LQ * DV);
    download(session, attention.args.attention.lse, attention.lse, B * H * LQ);
}

static void free_attention(att_session *session) {
    struct att_attention_args *args = &attention.args.attention;
    void *all[] = {args->q.data, args->k.data, args->v.data, args->o.data, args->lse, attention.args.workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cr_expect_eq(att_free(session, all[i]), ATT_OK);
}

static void check_attention(const char *schedule) {
    static double o[B * H * LQ * DV], lse[B * H * LQ], o_tolerance[B * H * LQ * DV], lse_tolerance[B * H * LQ];
    const struct oracle_attention problem = {.q = attention.q,
                                             .k = attention.k,
                                             .v = attention.v,
                                             .batch = B,
                                             .heads = H,
                                             .kv_heads = KV,
                                             .len_q = LQ,
                                             .len_kv = LK,
                                             .head_dim = D,
                                             .head_dim_v = DV,
                                             .scale = 1 / sqrt(D),
                                             .causal = true};
    cr_assert(oracle_attention(&problem, o, lse));
    cr_assert(tolerance_attention(&problem, TOLERANCE_FP32, TOLERANCE_FP32, o, lse, o_tolerance, lse_tolerance));
    for (int i = 0; i < B * H * LQ * DV; i++)
        cr_expect(tolerance_accepts(TOLERANCE_FP32, o[i], (double)attention.o[i], o_tolerance[i]),
                  "%s: o[%d] is %g, expected %g", schedule, i, (double)attention.o[i], o[i]);
    for (int i = 0; i < B * H * LQ; i++)
        cr_expect(tolerance_accepts(TOLERANCE_FP32, lse[i], (double)attention.lse[i], lse_tolerance[i]),
                  "%s: lse[%d] is %g, expected %g", schedule, i, (double)attention.lse[i], lse[i]);
}

Test(launch, attention_is_right_with_and_without_workspace) {
    static const char *const schedules[] = {"algorithm=flash", "algorithm=materialized"};
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        for (int i = 0; session && i < 2; i++) {
            att_kernel *kernel = find(session, ATTENTION, schedules[i]);
            upload_attention(session, kernel);
            cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
            cr_assert_eq(att_prepare(kernel), ATT_OK, "twice is as good as once");
            cr_assert_eq(att_launch(kernel, &attention.args, NULL), ATT_OK, "%s", att_message(session));
            cr_assert_eq(att_synchronize(session), ATT_OK, "%s", att_message(session));
            download_attention(session);
            check_attention(schedules[i]);
            free_attention(session);
        }
        att_close(session);
    }
}

Test(launch, refused_arguments_touch_nothing) {
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        if (!session)
            continue;
        att_kernel *kernel = find(session, ATTENTION, "algorithm=materialized");
        upload_attention(session, kernel);
        struct att_args bad = attention.args;
        bad.workspace_size--;
        cr_expect_eq(att_launch(kernel, &bad, NULL), ATT_INVALID_ARGUMENT);
        cr_expect(strstr(att_message(session), "workspace: it has"), "%s", att_message(session));
        bad = attention.args;
        bad.attention.q.data = NULL;
        cr_expect_eq(att_launch(kernel, &bad, NULL), ATT_INVALID_ARGUMENT);
        cr_expect(strstr(att_message(session), "q is null"), "%s", att_message(session));
        bad = attention.args;
        bad.attention.kv_heads = 3;
        size_t bytes = 1;
        cr_expect_eq(att_workspace_size(kernel, &bad, &bytes), ATT_INVALID_ARGUMENT);
        cr_expect_eq(bytes, 0);
        cr_expect_eq(att_launch(kernel, NULL, NULL), ATT_INVALID_ARGUMENT);
        download_attention(session);
        cr_expect(is_poison(attention.o, B * H * LQ * DV) && is_poison(attention.lse, B * H * LQ));
        free_attention(session);
        att_close(session);
    }
}

Test(launch, empty_outputs_start_nothing_and_no_keys_give_zeros) {
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        if (!session)
            continue;
        att_kernel *kernel = find(session, ATTENTION, "algorithm=materialized");
        upload_attention(session, kernel);
        struct att_args empty = {
            .size = sizeof empty, .family = ATT_ATTENTION_FORWARD, .attention = {.batch = B, .heads = H}};
        cr_expect_eq(att_launch(kernel, &empty, NULL), ATT_OK, "%s", att_message(session));
        struct att_args no_keys = attention.args;
        no_keys.attention.len_kv = 0;
        no_keys.attention.k.data = no_keys.attention.v.data = NULL;
        cr_expect_eq(att_launch(kernel, &no_keys, NULL), ATT_OK, "%s", att_message(session));
        download_attention(session);
        for (int i = 0; i < B * H * LQ * DV; i++)
            cr_expect(attention.o[i] == 0, "o[%d] is %g", i, (double)attention.o[i]);
        for (int i = 0; i < B * H * LQ; i++)
            cr_expect(isinf(attention.lse[i]) && attention.lse[i] < 0, "lse[%d] is %g", i, (double)attention.lse[i]);
        free_attention(session);
        att_close(session);
    }
}

/* --- softmax and merge -------------------------------------------------------------------------------------------- */

Test(launch, softmax_works_in_place) {
    enum { ROWS = 3, COLS = 70, STRIDE = 72 };
    float x[ROWS * STRIDE], y[ROWS * STRIDE], row[COLS];
    double expected[COLS], tolerance[COLS];
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        if (!session)
            continue;
        fill(x, ROWS * STRIDE, 7);
        void *memory = upload(session, x, ROWS * STRIDE);
        att_kernel *kernel = find(session, "family=softmax", NULL);
        struct att_args args = {
            .size = sizeof args, .family = ATT_SOFTMAX, .softmax = {memory, memory, STRIDE, STRIDE, ROWS, COLS}};
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
        download(session, memory, y, ROWS * STRIDE);
        for (int r = 0; r < ROWS; r++) {
            memcpy(row, x + r * STRIDE, sizeof row);
            oracle_softmax(row, 1, COLS, expected);
            cr_assert(tolerance_softmax(row, 1, COLS, TOLERANCE_FP32, expected, tolerance));
            for (int c = 0; c < COLS; c++)
                cr_expect(tolerance_accepts(TOLERANCE_FP32, expected[c], (double)y[r * STRIDE + c], tolerance[c]),
                          "row %d, column %d: %g, expected %g", r, c, (double)y[r * STRIDE + c], expected[c]);
            cr_expect_arr_eq(x + r * STRIDE + COLS, y + r * STRIDE + COLS, (STRIDE - COLS) * sizeof *x);
        }
        att_free(session, memory);
        att_close(session);
    }
}

Test(launch, too_many_blocks_are_refused_before_anything_starts) {
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        if (!session)
            continue;
        float *x = upload(session, (float[]){1}, 1), *y = upload(session, (float[]){1}, 1);
        att_kernel *kernel = find(session, "family=softmax", NULL);
        struct att_args args = {.size = sizeof args,
                                .family = ATT_SOFTMAX,
                                .softmax = {x, y + (INT64_C(1) << 40), 0, 1, INT64_C(1) << 32, 1}};
        cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INVALID_ARGUMENT);
        cr_expect(strstr(att_message(session), "blocks, expected at most 2147483647"), "%s", att_message(session));
        att_free(session, x);
        att_free(session, y);
        att_close(session);
    }
}

Test(launch, merge_of_nothing_is_the_neutral_element) {
    enum { ROWS = 4, WIDTH = 8 };
    for (int d = 0; d < DEVICES; d++) {
        att_session *session = open_device(devices[d]);
        if (!session)
            continue;
        float o[ROWS * WIDTH], lse[ROWS];
        att_kernel *kernel = find(session, "family=merge head_dim_v=8", NULL);
        struct att_args args = {.size = sizeof args,
                                .family = ATT_MERGE,
                                .merge = {.o = {poisoned(session, ROWS * WIDTH), 0, 0, WIDTH},
                                          .lse = poisoned(session, ROWS),
                                          .batch = 1,
                                          .heads = 1,
                                          .len_q = ROWS}};
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
        download(session, args.merge.o.data, o, ROWS * WIDTH);
        download(session, args.merge.lse, lse, ROWS);
        for (int i = 0; i < ROWS * WIDTH; i++)
            cr_expect(o[i] == 0);
        for (int i = 0; i < ROWS; i++)
            cr_expect(isinf(lse[i]) && lse[i] < 0);
        att_free(session, args.merge.o.data);
        att_free(session, args.merge.lse);
        att_close(session);
    }
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

Test(launch, host_device_reports_what_a_wrong_size_touches) {
    att_session *session = open_device(ATT_DEVICE_HOST);
    att_kernel *kernel = find(session, ATTENTION, "algorithm=flash");
    upload_attention(session, kernel);
    struct att_args args = attention.args;
    args.attention.len_kv = LK + 1; /* one key more than the tensors hold */
    for (int i = 0; i < 10; i++) {  /* blocks are reused, and the fault catches each in another state */
        cr_expect_eq(att_launch(kernel, &args, NULL), ATT_LAUNCH_FAILED);
        cr_expect(strstr(att_message(session), "past the end of a buffer") || strstr(att_message(session), "buffer of"),
                  "%s", att_message(session));
        cr_assert_eq(att_launch(kernel, &attention.args, NULL), ATT_OK, "the session goes on: %s",
                     att_message(session));
    }
    download_attention(session);
    check_attention("after a fault");
    free_attention(session);
    att_close(session);
}

Test(launch, counters_count_and_reset) {
    att_session *session = open_device(ATT_DEVICE_HOST);
    att_kernel *kernel = find(session, ATTENTION, "algorithm=flash");
    struct att_counters first = {.size = sizeof first}, second = {.size = sizeof second};
    upload_attention(session, kernel);
    cr_assert_eq(att_launch(kernel, &attention.args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_counters_read(session, &first, 1), ATT_OK);
    cr_expect_eq(first.global_written, B * H * LQ * (DV + 1) * sizeof(float), "every element of O and LSE once");
    cr_expect_geq(first.global_read, (B * H * LQ * D + B * KV * LK * (D + DV)) * sizeof(float));
    cr_assert_eq(att_counters_read(session, &second, 0), ATT_OK);
    cr_expect_eq(second.global_read + second.global_written + second.shared_read + second.shared_written, 0);
    free_attention(session);
    att_close(session);
}
