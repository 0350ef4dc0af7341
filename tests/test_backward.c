/* The backward pass through the public interface: which arguments it accepts, and what must hold for any numbers. The
   sweep (specs/attention_backward.yaml) checks that the numbers are right. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, LQ = 6, LK = 9, D = 8, Q = HEADS * LQ * D, K = KV_HEADS * LK * D, ROWS = HEADS * LQ };

static const char *const schedules[] = {"algorithm=materialized", "algorithm=flash_tiled"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

/* A problem in fp32 with O and LSE from the oracle. It is in device memory, which on the host device is this
   process's. */
struct problem {
    float q[Q], k[K], v[K], o[Q], lse[ROWS], d_o[Q], d_lse[ROWS], dq[Q], dk[K], dv[K], d_sinks[HEADS], sinks[HEADS];
    _Alignas(256) char workspace[1 << 16];
    struct att_param param;
    struct att_args args;
};

static struct att_tensor tensor(float *data, int heads, int rows) {
    return (struct att_tensor){data, (int64_t)heads * rows * D, (int64_t)rows * D, D};
}

static void fill_problem(struct problem *p, bool sinks) {
    static double o[Q], lse[ROWS], sink[HEADS];
    unsigned seed = 3;
    memset(p, 0, sizeof *p);
    run_fill(p->q, Q, TOLERANCE_FP32, &seed);
    run_fill(p->k, K, TOLERANCE_FP32, &seed);
    run_fill(p->v, K, TOLERANCE_FP32, &seed);
    run_fill(p->d_o, Q, TOLERANCE_FP32, &seed);
    run_fill(p->d_lse, ROWS, TOLERANCE_FP32, &seed);
    run_fill(p->sinks, HEADS, TOLERANCE_FP32, &seed);
    for (int h = 0; h < HEADS; h++)
        sink[h] = (double)p->sinks[h];
    struct oracle_attention forward = {p->q, p->k, p->v, 1, HEADS, KV_HEADS,
                                       LQ,   LK,   D,    D, 0.25,  .sinks = sinks ? sink : NULL};
    cr_assert(oracle_attention(&forward, o, lse));
    for (int i = 0; i < Q; i++)
        p->o[i] = (float)o[i];
    for (int i = 0; i < ROWS; i++)
        p->lse[i] = (float)lse[i];
    p->param = (struct att_param){.name = "sinks", .type = ATT_PARAM_FP32, .data = p->sinks, .size = {HEADS}};
    p->args = (struct att_args){.size = sizeof p->args,
                                .family = ATT_ATTENTION_BACKWARD,
                                .workspace = p->workspace,
                                .workspace_size = sizeof p->workspace,
                                .attention_backward = {.d_o = tensor(p->d_o, HEADS, LQ),
                                                       .d_lse = p->d_lse,
                                                       .dq = tensor(p->dq, HEADS, LQ),
                                                       .dk = tensor(p->dk, KV_HEADS, LK),
                                                       .dv = tensor(p->dv, KV_HEADS, LK),
                                                       .forward = {.q = tensor(p->q, HEADS, LQ),
                                                                   .k = tensor(p->k, KV_HEADS, LK),
                                                                   .v = tensor(p->v, KV_HEADS, LK),
                                                                   .o = tensor(p->o, HEADS, LQ),
                                                                   .lse = p->lse,
                                                                   .batch = 1,
                                                                   .heads = HEADS,
                                                                   .kv_heads = KV_HEADS,
                                                                   .len_q = LQ,
                                                                   .len_kv = LK,
                                                                   .scale = 0.25f,
                                                                   .param_count = sinks,
                                                                   .params = &p->param}}};
}

static struct problem *new_problem(att_session *session, bool sinks) {
    void *p = NULL;
    cr_assert_eq(att_alloc(session, sizeof(struct problem), &p), ATT_OK);
    fill_problem(p, sinks);
    return p;
}

static void run_problem(att_session *session, att_kernel *kernel, struct problem *p) {
    cr_assert_eq(att_launch(kernel, &p->args, NULL), ATT_OK, "%s", att_message(session));
}

static void expect_refusal(att_session *session, att_kernel *kernel, struct problem *p, const char *says) {
    memset(p->dq, 0x7b, sizeof p->dq);
    float before = p->dq[0];
    cr_expect_eq(att_launch(kernel, &p->args, NULL), ATT_INVALID_ARGUMENT, "%s", says);
    cr_expect(strstr(att_message(session), says), "expected '%s' in '%s'", says, att_message(session));
    cr_expect_eq(memcmp(&p->dq[0], &before, sizeof before), 0);
    fill_problem(p, false);
}

Test(backward, arguments_that_cannot_be_are_refused_by_name) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, "family=attention_backward head_dim=8", schedules[0]);
    struct problem *p = new_problem(session, false);
    struct att_attention_backward_args *args = &p->args.attention_backward;
    run_problem(session, kernel, p);
    args->forward.lse = NULL;
    expect_refusal(session, kernel, p, "lse is null");
    args->forward.o.data = NULL;
    expect_refusal(session, kernel, p, "o is null");
    args->d_o.data = NULL;
    expect_refusal(session, kernel, p, "d_o is null");
    args->dk.data = NULL;
    expect_refusal(session, kernel, p, "dk is null");
    args->dv.row_stride = 0;
    expect_refusal(session, kernel, p, "dv: row_stride is 0");
    args->dq = args->forward.q;
    expect_refusal(session, kernel, p, "dq overlaps q");
    args->dv = args->dk;
    expect_refusal(session, kernel, p, "dv overlaps dk");
    args->d_lse_head_stride = -1;
    expect_refusal(session, kernel, p, "d_lse: d_lse_head_stride is -1");
    args->forward.kv_heads = 3;
    expect_refusal(session, kernel, p, "kv_heads is 3");
    args->d_sinks = p->d_sinks;
    expect_refusal(session, kernel, p, "d_sinks is given, expected null");
    p->args.workspace_size = 7;
    expect_refusal(session, kernel, p, "workspace: it has 7 bytes");
    p->args.family = ATT_ATTENTION_FORWARD;
    expect_refusal(session, kernel, p, "attention_backward");
    att_free(session, p);
    att_close(session);
}

Test(backward, a_gradient_by_lse_that_is_left_out_is_0) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, "family=attention_backward head_dim=8 mask=causal", schedules[i]);
        struct problem *given = new_problem(session, false), *left_out = new_problem(session, false);
        memset(given->d_lse, 0, sizeof given->d_lse);
        left_out->args.attention_backward.d_lse = NULL;
        run_problem(session, kernel, given);
        run_problem(session, kernel, left_out);
        cr_expect_arr_eq(given->dq, left_out->dq, sizeof given->dq);
        cr_expect_arr_eq(given->dk, left_out->dk, sizeof given->dk);
        cr_expect_arr_eq(given->dv, left_out->dv, sizeof given->dv);
        att_free(session, given);
        att_free(session, left_out);
        att_close(session);
    }
}

Test(backward, gradients_of_one_row_and_of_nothing) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, "family=attention_backward head_dim=8", schedules[i]);
        struct problem *p = new_problem(session, false);
        memset(p->d_lse, 0, sizeof p->d_lse);
        memset(p->d_o, 0, sizeof p->d_o);
        for (int d = 0; d < D; d++)
            p->d_o[(2 * LQ + 3) * D + d] = 1; /* head 2, query 3 */
        run_problem(session, kernel, p);
        for (int row = 0; row < ROWS; row++)
            for (int d = 0; d < D; d++)
                cr_expect_eq(p->dq[row * D + d] != 0, row == 2 * LQ + 3, "%s: dq[%d][%d]", schedules[i], row, d);
        for (int j = 0; j < K; j++)
            cr_expect_eq(p->dv[j] != 0, j >= K / 2, "%s: dv[%d]", schedules[i], j); /* of K/V head 1 */
        memset(p->d_o, 0, sizeof p->d_o);
        run_problem(session, kernel, p);
        for (int j = 0; j < K; j++)
            cr_expect(p->dk[j] == 0 && p->dv[j] == 0 && p->dq[j] == 0);
        att_free(session, p);
        att_close(session);
    }
}

/* With equal weights for all keys, dV is the mean of dO over the keys. */
Test(backward, uniform_weights_have_a_closed_form) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, "family=attention_backward head_dim=8", schedules[i]);
        struct problem *p = new_problem(session, false);
        memset(p->k, 0, sizeof p->k);
        for (int row = 0; row < ROWS; row++)
            p->lse[row] = logf(LK);
        run_problem(session, kernel, p);
        for (int j = 0; j < K; j++) {
            int kv_head = j / (LK * D), d = j % D;
            double sum = 0;
            for (int row = 2 * kv_head * LQ; row < 2 * (kv_head + 1) * LQ; row++)
                sum += (double)p->d_o[row * D + d] / LK;
            cr_expect_float_eq((double)p->dv[j], sum, 1e-5, "%s: dv[%d] is %g, not %g", schedules[i], j,
                               (double)p->dv[j], sum);
        }
        for (int j = 0; j < Q; j++)
            cr_expect_eq(p->dq[j], 0); /* dS K with K = 0 */
        att_free(session, p);
        att_close(session);
    }
}

Test(backward, the_gradient_of_the_sinks_may_be_left_out) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, "family=attention_backward head_dim=8 sinks=1", schedules[i]);
        struct problem *with = new_problem(session, true), *without = new_problem(session, true);
        with->args.attention_backward.d_sinks = with->d_sinks;
        run_problem(session, kernel, with);
        run_problem(session, kernel, without);
        cr_expect_arr_eq(with->dq, without->dq, sizeof with->dq);
        for (int h = 0; h < HEADS; h++)
            cr_expect(with->d_sinks[h] != 0 && without->d_sinks[h] == 0);
        att_free(session, with);
        att_free(session, without);
        att_close(session);
    }
}

Test(backward, what_a_query_does_not_see_stays_out_of_its_gradient) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel =
            run_find(session, "family=attention_backward head_dim=8 mask='k + 3 < len_kv'", schedules[i]);
        struct problem *clean = new_problem(session, false), *spoilt = new_problem(session, false);
        for (int head = 0; head < KV_HEADS; head++)
            for (int j = (LK - 3) * D; j < LK * D; j++)
                spoilt->k[head * LK * D + j] = spoilt->v[head * LK * D + j] = NAN;
        run_problem(session, kernel, clean);
        run_problem(session, kernel, spoilt);
        cr_expect_arr_eq(clean->dq, spoilt->dq, sizeof clean->dq, "%s", schedules[i]);
        cr_expect_arr_eq(clean->dk, spoilt->dk, sizeof clean->dk, "%s", schedules[i]);
        cr_expect_arr_eq(clean->dv, spoilt->dv, sizeof clean->dv, "%s", schedules[i]);
        att_free(session, clean);
        att_free(session, spoilt);
        att_close(session);
    }
}

/* --- gradients of what the score reads --------------------------------------------------------------------------- */

#define BIASED                                                                                                         \
    "family=attention_backward head_dim=8 params='bias: float[heads, len_q, len_kv], slope: float' "                   \
    "score='s * slope + bias[h, q - (len_kv - len_q), k]' wants='dq, d_bias, d_slope'"

struct biased {
    struct problem problem;
    float bias[HEADS * LQ * LK], d_bias[HEADS * LQ * LK], d_slope;
    struct att_param params[2];
    struct att_param_gradient gradients[2];
};

static void fill_biased(struct biased *b) {
    struct att_attention_backward_args *args = &b->problem.args.attention_backward;
    fill_problem(&b->problem, false); /* a bias of 0 and a slope of 1 leave the forward pass unchanged */
    memset(b->bias, 0, sizeof b->bias);
    memset(b->d_bias, 0, sizeof b->d_bias);
    b->params[0] = (struct att_param){.name = "bias", .type = ATT_PARAM_FP32, .data = b->bias, .size = {HEADS, LQ, LK}};
    b->params[1] = (struct att_param){.name = "slope", .type = ATT_PARAM_FP32, .number = 1};
    b->gradients[0] = (struct att_param_gradient){.name = "bias", .data = b->d_bias, .size = {HEADS, LQ, LK}};
    b->gradients[1] = (struct att_param_gradient){.name = "slope", .data = &b->d_slope};
    args->forward.params = b->params;
    args->forward.param_count = 2;
    args->param_gradients = b->gradients;
    args->param_gradient_count = 2;
    args->dk.data = args->dv.data = NULL; /* not requested */
}

static struct biased *new_biased(att_session *session) {
    void *p = NULL;
    cr_assert_eq(att_alloc(session, sizeof(struct biased), &p), ATT_OK);
    fill_biased(p);
    return p;
}

static void expect_biased_refusal(att_session *session, att_kernel *kernel, struct biased *b, const char *says) {
    memset(b->d_bias, 0x7b, sizeof b->d_bias);
    float before = b->d_bias[0];
    cr_expect_eq(att_launch(kernel, &b->problem.args, NULL), ATT_INVALID_ARGUMENT, "%s", says);
    cr_expect(strstr(att_message(session), says), "expected '%s' in '%s'", says, att_message(session));
    cr_expect_eq(memcmp(&b->d_bias[0], &before, sizeof before), 0);
    fill_biased(b);
}

Test(backward, gradients_of_parameters_that_cannot_be_are_refused_by_name) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, BIASED, schedules[0]);
    struct biased *b = new_biased(session);
    struct att_attention_backward_args *args = &b->problem.args.attention_backward;
    run_problem(session, kernel, &b->problem);
    args->param_gradients = NULL;
    expect_biased_refusal(session, kernel, b, "param_gradients is null with param_gradient_count 2");
    args->param_gradient_count = 1;
    expect_biased_refusal(session, kernel, b, "'slope' is missing; the problem wants d_slope");
    b->gradients[1].name = "bias";
    expect_biased_refusal(session, kernel, b, "param_gradients[1]: 'bias' is given twice");
    b->gradients[0].name = NULL;
    expect_biased_refusal(session, kernel, b, "param_gradients[0]: its name is null");
    b->gradients[0].name = "biases";
    expect_biased_refusal(session, kernel, b, "the problem does not want 'd_biases'");
    b->gradients[0].data = NULL;
    expect_biased_refusal(session, kernel, b, "d_bias is null");
    b->gradients[0].size[1] = LQ + 1;
    expect_biased_refusal(session, kernel, b, "d_bias: size[1] is 7, expected 6");
    b->gradients[0].stride[2] = -1;
    expect_biased_refusal(session, kernel, b, "d_bias: stride[2] is -1");
    b->gradients[0].stride[2] = b->gradients[0].stride[1] = b->gradients[0].stride[0] = 1;
    expect_biased_refusal(session, kernel, b, "elements of the output would share memory");
    b->gradients[0].data = b->bias;
    expect_biased_refusal(session, kernel, b, "d_bias overlaps bias");
    b->gradients[1].data = b->d_bias;
    expect_biased_refusal(session, kernel, b, "d_slope overlaps bias");
    b->gradients[1].data = b->problem.dq;
    expect_biased_refusal(session, kernel, b, "d_slope overlaps dq");
    b->gradients[1].data = (float *)b->problem.workspace;
    expect_biased_refusal(session, kernel, b, "workspace overlaps slope");
    att_free(session, b);
    att_close(session);
}

Test(backward, a_gradient_is_summed_over_dimensions_of_stride_0) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, BIASED, schedules[i]);
        struct biased *whole = new_biased(session), *summed = new_biased(session);
        int64_t *stride = summed->gradients[0].stride;
        stride[0] = ATT_REPEAT, stride[1] = LK, stride[2] = 1; /* all heads add to one gradient */
        run_problem(session, kernel, &whole->problem);
        run_problem(session, kernel, &summed->problem);
        for (int j = 0; j < LQ * LK; j++) {
            double sum = 0, size = 0;
            for (int h = 0; h < HEADS; h++) {
                sum += (double)whole->d_bias[h * LQ * LK + j];
                size += fabs((double)whole->d_bias[h * LQ * LK + j]);
            }
            cr_expect_float_eq((double)summed->d_bias[j], sum, HEADS * 0x1p-24 * size + 1e-30, "%s", schedules[i]);
        }
        for (int j = LQ * LK; j < HEADS * LQ * LK; j++)
            cr_expect_eq(summed->d_bias[j], 0);
        cr_expect_eq(whole->d_slope, summed->d_slope); /* summed in the same order */
        att_free(session, whole);
        att_free(session, summed);
        att_close(session);
    }
}

/* The gradient of a bias is dS itself, so dQ = scale dbias K. */
Test(backward, the_gradient_of_a_bias_is_that_of_the_scores) {
    for (int i = 0; i < SCHEDULES; i++) {
        att_session *session = run_open();
        att_kernel *kernel = run_find(session, BIASED, schedules[i]);
        struct biased *b = new_biased(session);
        run_problem(session, kernel, &b->problem);
        for (int row = 0; row < ROWS; row++)
            for (int d = 0; d < D; d++) {
                double sum = 0;
                for (int key = 0; key < LK; key++)
                    sum += 0.25 * (double)b->d_bias[row * LK + key] *
                           (double)b->problem.k[(row / LQ / (HEADS / KV_HEADS) * LK + key) * D + d];
                cr_expect_float_eq((double)b->problem.dq[row * D + d], sum, 1e-5, "%s", schedules[i]);
            }
        for (int j = 0; j < K; j++)
            cr_expect(b->problem.dk[j] == 0 && b->problem.dv[j] == 0); /* not requested, so not written */
        att_free(session, b);
        att_close(session);
    }
}

Test(backward, gradients_that_are_not_wanted_take_no_launch) {
    static const struct {
        const char *wants;
        int launches;
    } rows[] = {{"dq", 2}, {"dk", 2}, {"dq, dk, dv", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        att_session *session = run_open();
        char problem[256];
        struct att_kernel_info info = {.size = sizeof info};
        snprintf(problem, sizeof problem, "family=attention_backward head_dim=8 wants='%s'", rows[i].wants);
        att_kernel *kernel = run_find(session, problem, "algorithm=flash_tiled");
        cr_assert_eq(att_kernel_describe(kernel, &info), ATT_OK);
        cr_expect_eq(info.launches, rows[i].launches, "%s", rows[i].wants);
        att_close(session);
    }
}
