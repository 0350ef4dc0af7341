/* Every rung of the ladder against the oracle: element types, head sizes, grouped heads, lengths that fill no tile,
   empty rows, NaN and infinities. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const schedules[] = {
    "algorithm=materialized",
    "algorithm=multi_pass",
    "algorithm=flash",
    "algorithm=flash_tiled loop_order=kv_outer",
    "algorithm=flash_tiled loop_order=q_outer",
};

static float *array(int64_t count) {
    float *values = malloc(sizeof *values * (size_t)(count ? count : 1));
    cr_assert_not_null(values);
    return values;
}

static double *doubles(int64_t count) {
    double *values = malloc(sizeof *values * (size_t)(count ? count : 1));
    cr_assert_not_null(values);
    return values;
}

struct sizes {
    int batch, heads, kv_heads, len_q, len_kv;
};

/* Where one NaN or infinity goes, so that a test sees what it reaches and what it does not. */
enum poison { POISON_NONE, POISON_Q, POISON_K, POISON_V, POISON_K_INF };

/* `weights`: the type that the kernel rounds its weights to. */
static void compare(const char *what, enum tolerance_type weights, enum tolerance_type type,
                    const struct oracle_attention *p, const float *o, const float *lse) {
    int64_t rows = p->batch * p->heads * p->len_q, count = rows * p->head_dim_v;
    double *right = doubles(count), *right_lse = doubles(rows), *slack = doubles(count), *slack_lse = doubles(rows);
    cr_assert(oracle_attention(p, right, right_lse));
    cr_assert(tolerance_attention(p, weights, type, right, right_lse, slack, slack_lse));
    for (int64_t i = 0; i < count; i++)
        cr_assert(tolerance_accepts(type, right[i], (double)o[i], slack[i]),
                  "%s, %d x %d: o[%d][%d] is %.9g, not %.9g within %.2g", what, (int)p->len_q, (int)p->len_kv,
                  (int)(i / p->head_dim_v), (int)(i % p->head_dim_v), (double)o[i], right[i], slack[i]);
    for (int64_t i = 0; i < rows; i++)
        cr_assert(tolerance_accepts(TOLERANCE_FP32, right_lse[i], (double)lse[i], slack_lse[i]),
                  "%s, %d x %d: lse[%d] is %.9g, not %.9g within %.2g", what, (int)p->len_q, (int)p->len_kv, (int)i,
                  (double)lse[i], right_lse[i], slack_lse[i]);
    free(right);
    free(right_lse);
    free(slack);
    free(slack_lse);
}

static void check(att_session *session, att_kernel *kernel, const char *what, enum tolerance_type weights,
                  enum tolerance_type type, int head_dim, int head_dim_v, bool causal, struct sizes s,
                  enum poison poison) {
    int64_t rows_q = (int64_t)s.batch * s.heads * s.len_q, rows_kv = (int64_t)s.batch * s.kv_heads * s.len_kv;
    float *q = array(rows_q * head_dim), *k = array(rows_kv * head_dim), *v = array(rows_kv * head_dim_v);
    float *o = array(rows_q * head_dim_v), *lse = array(rows_q);
    unsigned seed = 11;
    run_fill(q, rows_q * head_dim, type, &seed);
    run_fill(k, rows_kv * head_dim, type, &seed);
    run_fill(v, rows_kv * head_dim_v, type, &seed);
    if (poison == POISON_Q)
        q[rows_q / 2 * head_dim] = NAN;
    if (poison == POISON_K) /* the last key: under a causal mask only the last query of its head sees it */
        k[rows_kv * head_dim - 1] = NAN;
    if (poison == POISON_V)
        v[rows_kv * head_dim_v - 1] = NAN;
    if (poison == POISON_K_INF)
        k[(rows_kv - 1) * head_dim] = INFINITY;
    struct oracle_attention p = {q,
                                 k,
                                 v,
                                 s.batch,
                                 s.heads,
                                 s.kv_heads,
                                 s.len_q,
                                 s.len_kv,
                                 head_dim,
                                 head_dim_v,
                                 (double)(1 / sqrtf((float)head_dim)),
                                 .causal = causal};
    run_attention(session, kernel, type, type, &p, o, lse, NULL);
    compare(what, weights, type, &p, o, lse);
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
}

struct problem {
    const char *knobs;
    enum tolerance_type weights, type;
    int head_dim, head_dim_v;
    bool causal;
};

static void check_problems(const char *schedule, const struct problem *problems, int count) {
    static const struct sizes shapes[] = {
        {1, 1, 1, 0, 5}, {1, 2, 1, 5, 0}, {1, 1, 1, 1, 1}, {2, 4, 2, 19, 35}, {1, 1, 1, 35, 9}, {1, 1, 1, 70, 67},
    };
    att_session *session = run_open();
    for (const struct problem *p = problems; p < problems + count; p++) {
        char problem[160], what[320];
        snprintf(problem, sizeof problem, "family=attention_forward %s", p->knobs);
        snprintf(what, sizeof what, "%s %s", p->knobs, schedule);
        att_kernel *kernel = run_find(session, problem, schedule);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check(session, kernel, what, p->weights, p->type, p->head_dim, p->head_dim_v, p->causal, shapes[s],
                  POISON_NONE);
        for (int poison = POISON_Q; poison <= POISON_K_INF; poison++)
            check(session, kernel, what, p->weights, p->type, p->head_dim, p->head_dim_v, p->causal,
                  (struct sizes){1, 2, 1, 19, 35}, (enum poison)poison);
    }
    att_close(session);
}

static void check_rung(const char *schedule) {
    static const struct problem problems[] = {
        {"dtype=fp32 head_dim=64 head_dim_v=64 mask=causal", TOLERANCE_FP32, TOLERANCE_FP32, 64, 64, true},
        {"dtype=fp32 head_dim=5 head_dim_v=33 mask=none", TOLERANCE_FP32, TOLERANCE_FP32, 5, 33, false},
        {"dtype=fp32 head_dim=1 head_dim_v=1 mask=causal", TOLERANCE_FP32, TOLERANCE_FP32, 1, 1, true},
        {"dtype=fp16 head_dim=40 head_dim_v=24 mask=causal", TOLERANCE_FP32, TOLERANCE_FP16, 40, 24, true},
        {"dtype=bf16 head_dim=256 head_dim_v=256 mask=none", TOLERANCE_FP32, TOLERANCE_BF16, 256, 256, false},
    };
    check_problems(schedule, problems, sizeof problems / sizeof *problems);
}

Test(ladder, materialized_agrees_with_the_oracle) { check_rung(schedules[0]); }
Test(ladder, multi_pass_agrees_with_the_oracle) { check_rung(schedules[1]); }
Test(ladder, flash_agrees_with_the_oracle) { check_rung(schedules[2]); }
Test(ladder, flash_tiled_kv_outer_agrees_with_the_oracle) { check_rung(schedules[3]); }
Test(ladder, flash_tiled_q_outer_agrees_with_the_oracle) { check_rung(schedules[4]); }

Test(ladder, flash_async_agrees_with_the_oracle) {
    static const struct problem problems[] = {
        {"target=sm_90a dtype=fp16 head_dim=40 head_dim_v=24 mask=causal", TOLERANCE_FP16, TOLERANCE_FP16, 40, 24,
         true},
        {"target=sm_90a dtype=bf16 head_dim=64 mask=causal", TOLERANCE_BF16, TOLERANCE_BF16, 64, 64, true},
        {"target=sm_90a dtype=bf16 head_dim=128 mask=none", TOLERANCE_BF16, TOLERANCE_BF16, 128, 128, false},
    };
    check_problems("algorithm=flash_async", problems, sizeof problems / sizeof *problems);
}

Test(ladder, flash_mma_agrees_with_the_oracle) {
    static const struct problem problems[] = {
        {"target=sm_80 dtype=fp16 head_dim=43 head_dim_v=21 mask=causal", TOLERANCE_FP16, TOLERANCE_FP16, 43, 21, true},
        {"target=sm_80 dtype=bf16 head_dim=64 mask=causal", TOLERANCE_BF16, TOLERANCE_BF16, 64, 64, true},
        {"target=sm_80 dtype=bf16 head_dim=128 mask=none", TOLERANCE_BF16, TOLERANCE_BF16, 128, 128, false},
    };
    check_problems("algorithm=flash_mma", problems, sizeof problems / sizeof *problems);
}

Test(ladder, decode_agrees_with_the_oracle) {
    static const struct problem problems[] = {
        {"target=sm_80 dtype=fp16 head_dim=43 head_dim_v=21 mask=causal", TOLERANCE_FP16, TOLERANCE_FP16, 43, 21, true},
        {"target=sm_80 dtype=bf16 head_dim=64 mask=causal", TOLERANCE_BF16, TOLERANCE_BF16, 64, 64, true},
        {"target=sm_80 dtype=bf16 head_dim=128 mask=none", TOLERANCE_BF16, TOLERANCE_BF16, 128, 128, false},
    };
    check_problems("algorithm=decode", problems, sizeof problems / sizeof *problems);
    check_problems("algorithm=decode block_m=32", problems, 2);
}

/* Scores of hundreds overflow exp unless the maximum is subtracted everywhere. */
Test(ladder, large_scores_do_not_overflow) {
    enum { N = 40, D = 8 };
    float q[N * D], k[N * D], v[N * D], o[N * D], lse[N];
    unsigned seed = 2;
    run_fill(q, N * D, TOLERANCE_FP32, &seed);
    run_fill(k, N * D, TOLERANCE_FP32, &seed);
    run_fill(v, N * D, TOLERANCE_FP32, &seed);
    struct oracle_attention p = {q, k, v, 1, 1, 1, N, N, D, D, 100, .causal = false};
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        att_kernel *kernel = run_find(session, "family=attention_forward dtype=fp32 head_dim=8", schedules[i]);
        run_attention(session, kernel, TOLERANCE_FP32, TOLERANCE_FP32, &p, o, lse, NULL);
        compare(schedules[i], TOLERANCE_FP32, TOLERANCE_FP32, &p, o, lse);
    }
    att_close(session);
}

Test(ladder, equal_inputs_give_equal_bits) {
    enum { N = 67, D = 32 };
    static float x[N * D], o[2][N * D], lse[2][N];
    unsigned seed = 3;
    run_fill(x, N * D, TOLERANCE_FP32, &seed);
    struct oracle_attention p = {x, x, x, 1, 1, 1, N, N, D, D, 0.2, .causal = true};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        for (uint64_t run = 0; run < 2; run++) { /* the second run takes the threads in another order */
            att_session *session;
            struct att_options options = {
                .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .host_seed = run * 99};
            cr_assert_eq(att_open(&options, &session), ATT_OK);
            att_kernel *kernel =
                run_find(session, "family=attention_forward dtype=fp32 head_dim=32 mask=causal", schedules[i]);
            run_attention(session, kernel, TOLERANCE_FP32, TOLERANCE_FP32, &p, o[run], lse[run], NULL);
            att_close(session);
        }
        cr_assert(!memcmp(o[0], o[1], sizeof o[0]) && !memcmp(lse[0], lse[1], sizeof lse[0]), "%s", schedules[i]);
    }
}

/* --- softmax ------------------------------------------------------------------------------------------------------ */

static void check_softmax(const char *algorithm) {
    static const int shapes[][2] = {{0, 4}, {3, 0}, {3, 1}, {5, 129}, {2, 5000}};
    static const char *const types[] = {"fp32", "fp16", "bf16"};
    att_session *session = run_open();
    for (int type = TOLERANCE_FP32; type <= TOLERANCE_BF16; type++) {
        char problem[64];
        snprintf(problem, sizeof problem, "family=softmax dtype=%s", types[type]);
        att_kernel *kernel = run_find(session, problem, algorithm);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int special = 0; special < 4; special++) { /* the last element is one of these */
                static const float specials[] = {1, NAN, INFINITY, -INFINITY};
                int64_t rows = shapes[s][0], cols = shapes[s][1], count = rows * cols;
                float *x = array(count), *y = array(count);
                double *right = doubles(count), *slack = doubles(count);
                unsigned seed = 4;
                run_fill(x, count, (enum tolerance_type)type, &seed);
                if (count)
                    x[count - 1] = specials[special];
                run_softmax(session, kernel, (enum tolerance_type)type, (enum tolerance_type)type, x, rows, cols, y);
                oracle_softmax(x, rows, cols, right);
                cr_assert(tolerance_softmax(x, rows, cols, (enum tolerance_type)type, right, slack));
                for (int64_t i = 0; i < count; i++)
                    cr_assert(tolerance_accepts((enum tolerance_type)type, right[i], (double)y[i], slack[i]),
                              "%s %s, %d x %d: y[%d] is %.9g, not %.9g", algorithm, types[type], (int)rows, (int)cols,
                              (int)i, (double)y[i], right[i]);
                free(x);
                free(y);
                free(right);
                free(slack);
            }
    }
    att_close(session);
}

Test(ladder, softmax_three_pass_agrees_with_the_oracle) { check_softmax("algorithm=three_pass"); }
Test(ladder, softmax_online_agrees_with_the_oracle) { check_softmax("algorithm=online"); }

/* y may be x: every element is written by the thread that read it last. */
Test(ladder, softmax_works_in_place) {
    enum { ROWS = 3, COLS = 700 };
    static const char *const algorithms[] = {"algorithm=three_pass", "algorithm=online"};
    static float x[ROWS * COLS], y[ROWS * COLS];
    static double right[ROWS * COLS], slack[ROWS * COLS];
    att_session *session = run_open();
    unsigned seed = 6;
    run_fill(x, ROWS * COLS, TOLERANCE_FP32, &seed);
    oracle_softmax(x, ROWS, COLS, right);
    cr_assert(tolerance_softmax(x, ROWS, COLS, TOLERANCE_FP32, right, slack));
    for (int i = 0; i < 2; i++) {
        void *device;
        cr_assert_eq(att_alloc(session, sizeof x, &device), ATT_OK);
        cr_assert_eq(att_copy_in(session, device, x, sizeof x), ATT_OK);
        struct att_args args = {
            .size = sizeof args, .family = ATT_SOFTMAX, .softmax = {device, device, COLS, COLS, ROWS, COLS}};
        att_kernel *kernel = run_find(session, "family=softmax dtype=fp32", algorithms[i]);
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
        cr_assert_eq(att_copy_out(session, y, device, sizeof y), ATT_OK);
        for (int j = 0; j < ROWS * COLS; j++)
            cr_assert(tolerance_accepts(TOLERANCE_FP32, right[j], (double)y[j], slack[j]),
                      "%s: y[%d] is %.9g, not %.9g", algorithms[i], j, (double)y[j], right[j]);
        cr_assert_eq(att_free(session, device), ATT_OK);
    }
    att_close(session);
}
