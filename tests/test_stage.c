/* The tensors on which candidates are timed, and the few rows that reveal a wrong kernel. */
#include "stage.h"
#include "stand.h"
#include "timing.h"
#include "worker.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static att_session *session;

static void enter(void) {
    static const struct att_options options = {.size = sizeof options,
                                               .device = ATT_DEVICE_HOST,
                                               .host_mode = ATT_HOST_FAST,
                                               .cache_dir = BUILD_DIR "/tests/tune-cache"};
    mkdir(BUILD_DIR "/tests/tune-cache", 0700);
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
}

static void leave(void) { att_close(session); }

TestSuite(stage, .init = enter, .fini = leave, .timeout = 120);

static att_kernel *find(const char *problem) {
    att_kernel *kernel;
    struct text text = {0};
    text_print(&text, "family=attention_forward head_dim=8 %s", problem);
    enum att_status status = att_find(session, text_string(&text), "algorithm=flash threads=64", &kernel);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK);
    text_free(&text);
    return kernel;
}

static double worst_of(struct stage *stage, att_kernel *kernel, struct text *report) {
    struct failure failure = {0};
    double worst = NAN;
    cr_assert_eq(stage_fit(stage, kernel, &failure), ATT_OK, "%s", text_string(&failure.text));
    cr_assert_eq(stage_check(stage, kernel, &worst, report, &failure), ATT_OK, "%s", text_string(&failure.text));
    return worst;
}

static void put_up(struct stage *stage, att_kernel *kernel, const struct shape *shape) {
    struct failure failure = {0};
    enum att_status status = stage_set(stage, &kernel->variant.knobs, shape, &failure);
    cr_assert_eq(status, ATT_OK, "%s", text_string(&failure.text));
}

Test(stage, accepts_kernels_that_are_right) {
    static const char *const problems[] = {
        "dtype=fp32", "dtype=bf16 mask=causal", "dtype=fp32 mask=\"q - k < window\" params=\"window: int\" sinks=1",
        "dtype=fp32 mask='(k + q) % (b + 2) == 0' score='s * (b + 1) - hk * abs(q - k + h)'"};
    static const struct shape shapes[] = {
        {.batch = 1, .heads = 1, .len_q = 1, .len_kv = 1},
        {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 9, .len_kv = 30},
        {.batch = 1, .heads = 3, .kv_heads = 1, .len_q = 30, .len_kv = 9}, /* causal: some rows see nothing */
    };
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        att_kernel *kernel = find(problems[p]);
        struct stage stage;
        stage_open(&stage, session);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct text report = {0};
            put_up(&stage, kernel, &shapes[s]);
            double worst = worst_of(&stage, kernel, &report);
            cr_expect(worst <= 1, "%s, shape %zu: %g: %s", problems[p], s, worst, text_string(&report));
            text_free(&report);
        }
        stage_close(&stage);
    }
}

/* A kernel of another problem is a wrong kernel. */
Test(stage, says_where_a_wrong_kernel_is_wrong) {
    static const struct shape shape = {.batch = 2, .heads = 2, .kv_heads = 2, .len_q = 20, .len_kv = 20};
    att_kernel *right = find("dtype=fp32 mask=causal"), *wrong = find("dtype=fp32");
    struct stage stage;
    struct text report = {0};
    stage_open(&stage, session);
    put_up(&stage, right, &shape);
    cr_expect_leq(worst_of(&stage, right, &report), 1);
    cr_expect_eq(report.size, 0);
    cr_expect_gt(worst_of(&stage, wrong, &report), 1);
    cr_expect(strstr(text_string(&report), "batch 0, head 0, query 0, column 0: expected"), "%s", text_string(&report));
    text_free(&report);
    cr_expect_leq(worst_of(&stage, right, &report), 1, "what the wrong one left is gone");
    stage_close(&stage);
}

/* All batches and heads are checked. */
Test(stage, notices_a_kernel_that_is_wrong_in_one_batch_or_head) {
    static const struct shape shape = {.batch = 2, .heads = 2, .kv_heads = 2, .len_q = 20, .len_kv = 20};
    static const char *const wrong[] = {"dtype=fp32 mask=\"k <= q or h > 0\"", "dtype=fp32 mask=\"k <= q or b > 0\"",
                                        "dtype=fp32 mask=\"k <= q or b + h == 0\""};
    att_kernel *right = find("dtype=fp32 mask=causal");
    struct stage stage;
    stage_open(&stage, session);
    put_up(&stage, right, &shape);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct text report = {0};
        cr_expect_gt(worst_of(&stage, find(wrong[i]), &report), 1, "%s", wrong[i]);
        text_free(&report);
    }
    stage_close(&stage);
}

/* A kernel that writes nothing leaves what was there before: the poison, which is not an answer. */
Test(stage, notices_rows_that_are_not_written) {
    static const struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 20, .len_kv = 20};
    att_kernel *kernel = find("dtype=fp32");
    struct stage stage;
    struct text report = {0};
    stage_open(&stage, session);
    put_up(&stage, kernel, &shape);
    stage.args.attention.len_q = 10; /* the last rows stay as they are */
    cr_expect_gt(worst_of(&stage, kernel, &report), 1);
    text_free(&report);
    stage_close(&stage);
}

Test(stage, is_put_up_again_only_when_something_differs) {
    struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 0, .len_q = 5, .len_kv = 5};
    att_kernel *none = find("dtype=fp32"), *causal = find("dtype=fp32 mask=causal");
    struct stage stage;
    stage_open(&stage, session);
    put_up(&stage, none, &shape);
    put_up(&stage, none, &shape);
    shape.kv_heads = 2; /* means the same */
    put_up(&stage, none, &shape);
    cr_expect_eq(stage.changes, 1);
    put_up(&stage, causal, &shape);
    cr_expect_eq(stage.changes, 2);
    shape.len_kv = 6;
    put_up(&stage, causal, &shape);
    cr_expect_eq(stage.changes, 3);
    stage_close(&stage);
}

Test(stage, counts_what_there_is_to_do) {
    struct knobs knobs = knobs_default();
    const struct shape shape = {.batch = 2, .heads = 3, .kv_heads = 1, .len_q = 4, .len_kv = 6};
    knobs.family = family_attention_forward;
    knobs.head_dim = knobs.head_dim_v = 8;
    knobs.dtype = dtype_bf16;
    cr_expect_float_eq(stage_operations(&knobs, &shape), 2 * 6 * 4 * 6 * 16, 0.5);
    knobs.mask = mask_causal; /* the queries see 3, 4, 5 and 6 keys */
    cr_expect_float_eq(stage_operations(&knobs, &shape), 2 * 6 * 18 * 16, 0.5);
    double q = 2 * 3 * 4 * 8 * 2, kv = 2 * 1 * 6 * 8 * 2, lse = 2 * 3 * 4 * 4;
    cr_expect_float_eq(stage_bytes(&knobs, &shape), 2 * q + 2 * kv + lse, 0.5);
}

Test(stage, times_cold_and_warm) {
    static const struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 5, .len_kv = 5};
    att_kernel *kernel = find("dtype=fp32");
    struct stage stage;
    struct timing cold, warm;
    struct failure failure = {0};
    stage_open(&stage, session);
    put_up(&stage, kernel, &shape);
    enum att_status status = timing_run(session, kernel, &stage.args, 0.001, &cold, &warm, &failure);
    cr_assert_eq(status, ATT_OK, "%s", text_string(&failure.text));
    cr_expect(cold.samples >= (cold.min > 2e-3 ? 1 : 3) && warm.samples >= 1);
    cr_expect(cold.min > 0 && cold.min <= cold.median && cold.spread >= 0);
    cr_expect(warm.min > 0 && warm.min <= warm.median && warm.spread >= 0);
    stage_close(&stage);
}

/* The stand itself, through a worker: an order in, a record out. */
Test(stage, measures_for_whoever_orders_it) {
    struct stand_options options = {.session = {.size = sizeof(struct att_options),
                                                .device = ATT_DEVICE_HOST,
                                                .host_mode = ATT_HOST_FAST,
                                                .cache_dir = BUILD_DIR "/tests/tune-cache"}};
    struct order order = {.variant = find("dtype=fp32")->variant,
                          .shape = {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 7, .len_kv = 7},
                          .seconds = 0.01};
    struct worker worker;
    struct reply reply;
    struct text error = {0};
    cr_assert(worker_start(&worker, stand_body, &options, &error), "%s", text_string(&error));
    cr_assert(worker_receive(worker.channel, &reply, sizeof reply));
    cr_expect_str_eq(reply.record.arch, "host");
    cr_assert(worker_send(worker.channel, &order, sizeof order));
    cr_assert(worker_receive(worker.channel, &reply, sizeof reply));
    cr_expect_str_eq(reply.record.status, "ok", "%s", reply.record.error);
    cr_expect_gt(reply.record.cold_median, 0);
    cr_expect_gt(reply.record.tflops, 0);
    cr_expect(reply.record.error_of_allowed <= 1);
    order.variant.knobs.target = target_sm_90a; /* this device cannot run it */
    order.variant.knobs.head_dim = 1000;
    cr_assert(worker_send(worker.channel, &order, sizeof order));
    cr_assert(worker_receive(worker.channel, &reply, sizeof reply));
    cr_expect_str_neq(reply.record.status, "ok");
    cr_expect_gt(strlen(reply.record.error), 0);
    worker_stop(&worker, NULL);
}
