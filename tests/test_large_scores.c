/* Scores far from 0, in every algorithm: equal ones weigh alike, the largest wins, one beyond fp32 makes its row
   NaN, and a row whose keys are all at -FLT_MAX is the mean of V. Scores are equal or far apart, so that their
   rounding changes no weight. Results may be off by the rounding of weights, of their sum and of the output, at any
   size of score. */
#include "check.h"
#include "helper_device.h"
#include "helper_part.h"
#include "oracle.h"
#include "session.h"
#include "tolerance.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_DIM = 16, HEADS = 2, ROWS = 70, KEYS = 150, TYPES = 3 };

static const char *const types[TYPES] = {"fp32", "fp16", "bf16"};
static const double units[TYPES] = {0x1p-24, 0x1p-11, 0x1p-8};
static const char *const masks[] = {"mask=none", "mask=causal", "mask='k <= q and k % 3 != 1'"};
enum { MASKS = sizeof masks / sizeof *masks };

static const struct {
    const char *schedule;
    const char *target; /* with 16-bit weights; otherwise null */
} kernels[] = {
    {"algorithm=materialized", NULL},
    {"algorithm=multi_pass", NULL},
    {"algorithm=flash", NULL},
    {"algorithm=flash_tiled loop_order=q_outer block_m=32 block_n=16 thread_m=4 thread_n=4", NULL},
    {"algorithm=flash_tiled loop_order=kv_outer block_m=16 block_n=16", NULL},
    {"algorithm=flash_async block_m=64 block_n=32 rescale=from_sum", "sm_90a"},
    {"algorithm=flash_async block_m=128 block_n=16 overlap=both rescale=lazy", "sm_90a"},
    {"algorithm=flash_async block_m=64 block_n=32 rescale=always", "sm_90a"},
    {"algorithm=flash_mma block_m=64 block_n=32 threads=128 stages=2 rescale=lazy", "sm_80"},
    {"algorithm=flash_mma block_m=128 block_n=32 threads=128 stages=1 rescale=from_sum", "sm_80"},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* --- one launch ---------------------------------------------------------------------------------------------------- */

/* The first elements of all queries (negated in every other one) and of all keys. All other elements are 0. */
struct scores {
    float query, scale;
    float least, most; /* key j is one of 64 steps from least to most */
    float last;        /* of key KEYS - 3, unless 0 */
    double factor;     /* of the score's expression; 0 = 1 */
};

static float key_of(const struct scores *scores, int key) {
    if (key == KEYS - 3 && scores->last != 0)
        return scores->last;
    return scores->least + (scores->most - scores->least) * (float)(key * 37 % 64) / 64;
}

static float rounded(const struct workload_input *input, float value) {
    unsigned char bits[4];
    element_encode(input->type, value, bits);
    return element_decode(input->type, bits);
}

/* Sets the oracle's answer, where a score beyond fp32 is infinite. flash_async scales differences of products, so a
   score that only the scale makes infinite is infinite in LSE alone, which may also be off by `more`. */
static void answer(struct workload *w, const struct scores *scores, bool narrow, double more) {
    static float k[KEYS * HEAD_DIM];
    bool of_differences = narrow && !w->params->formulas.score;
    double factor = of_differences ? 1 : (scores->factor != 0 ? scores->factor : 1) * w->scale;
    memcpy(k, w->input[1].value, sizeof k);
    for (int key = 0; key < KEYS; key++)
        if (fabs((double)scores->query * (double)k[key * HEAD_DIM] * factor) > (double)FLT_MAX)
            k[key * HEAD_DIM] = copysignf(INFINITY, k[key * HEAD_DIM]);
    struct oracle_attention p = {.q = w->input[0].value,
                                 .k = k,
                                 .v = w->input[2].value,
                                 .batch = 1,
                                 .heads = HEADS,
                                 .kv_heads = 1,
                                 .len_q = ROWS,
                                 .len_kv = KEYS,
                                 .head_dim = HEAD_DIM,
                                 .head_dim_v = HEAD_DIM,
                                 .scale = w->scale,
                                 .causal = w->problem.mask == mask_causal,
                                 .mask = w->params->formulas.mask,
                                 .score = w->params->formulas.score,
                                 .env = &w->params->env};
    if (w->problem.sinks > 0)
        p.sinks = w->params->param[w->params->formulas.scope.count - 1].value;
    cr_assert(oracle_attention(&p, w->output[0].expected, w->output[1].expected));
    double unit = 100 * 0x1p-24 + units[w->output[0].type] + (narrow ? units[w->problem.dtype] : 0);
    for (int64_t i = 0; i < w->output[0].count; i++)
        w->output[0].allowed[i] = unit * fabs(w->output[0].expected[i]) + 0x1p-126;
    for (int64_t i = 0; i < w->output[1].count; i++) {
        w->output[1].expected[i] = of_differences ? (double)(float)w->output[1].expected[i] : w->output[1].expected[i];
        w->output[1].allowed[i] = 0x1p-21 * (fabs(w->output[1].expected[i]) + 1) + (narrow ? more : 0);
    }
}

/* `param`: the value of all elements of the problem's tensors; NAN = leave them as they are. */
static void check(att_session *session, int kernel, const char *type, const char *problem, const struct scores *scores,
                  float param, double more) {
    static const struct shape shape = {.batch = 1, .heads = HEADS, .kv_heads = 1, .len_q = ROWS, .len_kv = KEYS};
    const struct check_options options = {.layout = LAYOUT_PACKED, .shown = 2};
    char whole[320];
    att_kernel *found;
    struct workload w;
    struct text error = {0};
    struct check_result result;
    snprintf(whole, sizeof whole, "family=attention_forward head_dim=%d dtype=%s%s%s %s", HEAD_DIM, type,
             kernels[kernel].target ? " target=" : "", kernels[kernel].target ? kernels[kernel].target : "", problem);
    cr_assert_eq(att_find(session, whole, kernels[kernel].schedule, &found), ATT_OK, "%s", att_message(session));
    cr_assert(workload_make(&w, &found->variant.knobs, &shape, NULL, 1, &error), "%s", text_string(&error));
    w.scale = (double)scores->scale;
    for (int i = 0; i < 2; i++)
        memset(w.input[i].value, 0, sizeof(float) * (size_t)w.input[i].count);
    for (int row = 0; row < HEADS * ROWS; row++)
        w.input[0].value[row * HEAD_DIM] = rounded(&w.input[0], row % 2 ? -scores->query : scores->query);
    for (int key = 0; key < KEYS; key++) {
        w.input[1].value[key * HEAD_DIM] = rounded(&w.input[1], key_of(scores, key));
        for (int d = 0; d < HEAD_DIM; d++)
            w.input[2].value[key * HEAD_DIM + d] = (float)(1 + key / 10 + d % 2);
    }
    for (int i = 0; i < w.params->formulas.scope.count && !isnan(param); i++)
        for (int64_t j = 0; j < w.params->param[i].count; j++)
            w.params->param[i].value[j] = (double)param;
    answer(&w, scores, kernels[kernel].target, more);
    cr_expect(check_run(session, found, &w, &options, &result), "%s\n%s\nq %g, k %g to %g, last %g, scale %g\n%s",
              whole, kernels[kernel].schedule, (double)scores->query, (double)scores->least, (double)scores->most,
              (double)scores->last, (double)scores->scale, text_string(&result.report));
    check_free(&result);
    workload_free(&w);
}

/* --- scores as they are ----------------------------------------------------------------------------------------------- */

static void sizes(att_session *session, int kernel, int type, const char *problem) {
    static const double size[] = {6e3, 1.2e7, 5e8, 3e9, 1e12, 1e30, 1.5e38, 2.5e38, 3.3e38};
    const float whole = 16384; /* exact in fp16 */
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int by_scale = type == 1; by_scale < 2; by_scale++) { /* or by the inputs, for which fp16 is too small */
            float side = by_scale ? whole : (float)ldexp(1, ilogb(sqrt(size[i]))), square = side * side;
            float scale = by_scale ? (float)size[i] / square : 1,
                  top = by_scale ? side : (float)(size[i] / (double)side);
            check(session, kernel, types[type], problem, &(struct scores){side, scale, top, top, 0, 0}, NAN, 0);
            check(session, kernel, types[type], problem, &(struct scores){side, scale, top / 2, top, 0, 0}, NAN, 0);
            check(session, kernel, types[type], problem, &(struct scores){side, -scale, top / 2, top, 0, 0}, NAN, 0);
        }
}

static void beyond(att_session *session, int kernel, int type, const char *problem) {
    const float side = type == 1 ? 32768 : 0x1p70f, scale = type == 1 ? 0x1p110f : 1;
    const struct scores scores[] = {
        {side, scale, side, side, 0, 0}, {side, scale, side / 2, side, 0, 0}, {1, 1, 1, 2, INFINITY, 0},
        {1, 1, 1, 2, -INFINITY, 0},      {1, -1, 1, 2, INFINITY, 0},          {1, 1, INFINITY, INFINITY, 0, 0},
        {side, scale, 1, 1, side, 0},    {side, -scale, 1, 1, side, 0},
    };
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
        check(session, kernel, types[type], problem, &scores[i], NAN, 0);
}

/* One process for each algorithm and type. */
ParameterizedTestParameters(large_scores, of_every_size_and_beyond) {
    static int which[KERNELS * TYPES];
    int count = 0;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int type = kernels[kernel].target ? 1 : 0; type < TYPES; type++)
            which[count++] = kernel * TYPES + type;
    return cr_make_param_array(int, which, (size_t)count);
}
ParameterizedTest(int *which, large_scores, of_every_size_and_beyond) {
    int kernel = *which / TYPES, type = *which % TYPES;
    att_session *session = open_test_device(ATT_HOST_FAST);
    for (int i = 0; i < 2; i++) {
        char problem[128];
        if (!shard_has(*which + i, 4))
            continue;
        snprintf(problem, sizeof problem, "%s%s", masks[(*which + i) % MASKS], i ? " sinks=1" : "");
        sizes(session, kernel, type, problem);
        beyond(session, kernel, type, problem);
    }
    att_close(session);
}

/* --- scores that are expressions ---------------------------------------------------------------------------------------- */

#define LEAST    (-0x1.fep127f)      /* of bf16 */
#define FAR_REST (4 * 256 * 0x1p-24) /* four roundings at the size of 256 slopes: docs/numerics.md */

static const struct {
    const char *problem;
    struct scores scores;
    float param;
    double more;
} expressions[] = {
    {"score='s - 1e9'", {0, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s - 1.2e7' mask=causal", {0, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s - 3.4028234663852886e38' mask=causal", {0, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s + bias[k]' params='bias: float[len_kv]'", {0, 1, 1, 1, 0, 0}, -FLT_MAX, 0},
    {"score='s + bias[k]' mask=causal params='bias: bf16[len_kv]'", {0, 1, 1, 1, 0, 0}, LEAST, 0},
    {"score='s + bias[h, q - (len_kv - len_q), k]' params='bias: float[heads, len_q, len_kv]' mask='k <= q and k % 3 "
     "!= "
     "1'",
     {0, 1, 1, 1, 0, 0},
     LEAST,
     0},
    {"score='s - 3.4028234663852886e38 if k < 80 else s'", {0, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s + bias[k]' params='bias: float[len_kv]' sinks=1", {0, 1, 1, 1, 0, 0}, -FLT_MAX, 0},
    {"score='s + bias[k]' params='bias: bf16[len_kv]' sinks=1", {0, 1, 1, 1, 0, 0}, 0x1p32f, 0},
    {"score='s + bias[k]' params='bias: bf16[len_kv]' sinks=1 mask=causal", {0, 1, 1, 1, 0, 0}, -0x1p32f, 0},
    {"score='1e9 * tanh(s) - 3e9'", {0, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='3e9 * tanh(s / 100)' mask=causal", {128, 1, 64, 64, 0, 0}, NAN, 0},
    {"score='softcap(2e38)'", {0x1p-60f, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s + 1e7 * (k - q)'", {1, 1, 1, 1, 0, 0}, NAN, FAR_REST * 1e7},
    {"score='s - 1e30 * abs(k - q)' mask=causal", {1, 1, 1, 1, 0, 0}, NAN, 0},
    {"score='s * 1e30' mask='k <= q and k % 3 != 1'", {64, 1, 64, 128, 0, 1e30}, NAN, 0},
    {"score='s * 1e36'", {64, 1, 64, 128, 0, 1e36}, NAN, 0},
    {"score='s * 1e36' mask=causal sinks=1", {1, 1, 1, 1, 512, 1e36}, NAN, 0},
};
enum { EXPRESSIONS = sizeof expressions / sizeof *expressions };

ParameterizedTestParameters(large_scores, of_expressions) {
    static int which[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return cr_make_param_array(int, which, sizeof which / sizeof *which); /* the last kernel takes no expressions */
}
ParameterizedTest(int *which, large_scores, of_expressions) {
    att_session *session = open_test_device(ATT_HOST_FAST);
    for (int i = 0; i < EXPRESSIONS; i++) {
        if (!shard_has(i / 2, 4))
            continue;
        if (kernels[*which].target && *which > 5 && i % 2 != *which % 2) /* the default runs all, two others half */
            continue;
        int type = kernels[*which].target ? 1 + (i + *which) % 2 : (i + *which) % TYPES;
        check(session, *which, types[type], expressions[i].problem, &expressions[i].scores, expressions[i].param,
              expressions[i].more);
    }
    att_close(session);
}

/* The Hopper kernel has three ways to compute tanh, each up to where it is exact. Where one ends,
   another takes over. */
Test(large_scores, of_tanh_where_its_polynomials_end) {
    enum { FROM_SUM = 5, CAP = 100000 };
    static const float x[] = {0.2f, 0.305f, 0.315f, 0.33f, 0.35f, 0.358f, 0.7f, 0.94f, 0.96f, 1.05f, 1.5f, 4};
    att_session *session = open_test_device(ATT_HOST_FAST);
    for (int type = 1; type < TYPES; type++)
        for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
            float key = x[i] * CAP / 256;
            check(session, FROM_SUM, types[type], "score='softcap(100000)'", &(struct scores){256, 1, key, key, 0, 0},
                  NAN, CAP * 24 * 0x1p-24);
        }
    att_close(session);
}
