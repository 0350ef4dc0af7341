/* Checks the gradients that everything else is judged by against differences of the forward oracle, for every mask and
   score of the cookbook and for a few other problems. */
#include "catalog.h"
#include "oracle_backward.h"
#include "params.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM = 3, HEAD_DIM_V = 2, MOST = 1024 };

/* A loss, sum of O * A + sum of LSE * B, and everything that it depends on. Inputs are multiples of 2^-9, so that a
   step of 2^-10 and its half are exact in float. */
struct loss {
    struct oracle_attention p;
    float q[MOST], k[MOST], v[MOST], d_o[MOST], d_lse[MOST];
    double sinks[8], o[MOST], lse[MOST];
};

static float coarse(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((int)(*state >> 21) - 1024) / 512;
}

static void fill(float *values, unsigned *state) {
    for (int i = 0; i < MOST; i++)
        values[i] = coarse(state);
}

static double loss_of(struct loss *loss) {
    const struct oracle_attention *p = &loss->p;
    int64_t rows = p->batch * p->heads * p->len_q;
    double sum = 0;
    cr_assert(oracle_attention(p, loss->o, loss->lse));
    for (int64_t i = 0; i < rows * p->head_dim_v; i++)
        sum += loss->o[i] * (double)loss->d_o[i];
    for (int64_t i = 0; i < rows; i++) /* a row that sees no key has none */
        sum += isfinite(loss->lse[i]) ? loss->lse[i] * (double)loss->d_lse[i] : 0;
    return sum;
}

static double difference(struct loss *loss, float *input, double *sink, double step) {
    double at = input ? (double)*input : *sink, side[2];
    for (int i = 0; i < 2; i++) {
        if (input)
            *input = (float)(at + (i ? step : -step));
        else
            *sink = at + (i ? step : -step);
        side[i] = loss_of(loss);
    }
    if (input)
        *input = (float)at;
    else
        *sink = at;
    return (side[1] - side[0]) / (2 * step);
}

/* Compares with central differences of steps h and h / 2, whose h^2 errors cancel. Where the two are far apart, there
   is a corner between. */
static bool expect_slope(struct loss *loss, const char *what, const char *tensor, int64_t i, float *input, double *sink,
                         double found) {
    double coarse_one = difference(loss, input, sink, 0x1p-10), fine = difference(loss, input, sink, 0x1p-11);
    double expected = (4 * fine - coarse_one) / 3, size = 1 + fabs(expected);
    if (fabs(fine - coarse_one) > 1e-3 * size)
        return false;
    cr_expect(fabs(found - expected) <= 1e-8 * size, "%s: %s[%d]: differences say %.12g, the oracle %.12g", what,
              tensor, (int)i, expected, found);
    return true;
}

/* Checks the slopes of every float that the score reads. Returns how many were compared. */
static int expect_param_slopes(struct loss *loss, struct params *params, const struct oracle_backward *problem,
                               const char *what) {
    struct formula_reads reads = {0};
    struct oracle_gradients gradients = {0};
    struct oracle_backward with = *problem;
    int compared = 0;
    cr_assert(!loss->p.score || formula_reads_find(loss->p.score, ~0u, &reads), "%s", what);
    with.reads = &reads;
    with.scope = &params->formulas.scope;
    for (int i = 0; i < reads.count; i++) {
        int param = reads.read[i].param;
        if (!gradients.d_param[param])
            gradients.d_param[param] = calloc((size_t)params->param[param].count + 1, sizeof(double));
    }
    loss_of(loss); /* the differences left O and LSE of other inputs */
    if (reads.count)
        oracle_backward(&with, &gradients);
    for (int i = 0; i < params->formulas.scope.count; i++) {
        const char *name = params->formulas.scope.param[i].name;
        int64_t step = params->param[i].count / 40 + 1;
        for (int64_t j = 0; gradients.d_param[i] && j < params->param[i].count; j += step) {
            double *at = params->formulas.scope.param[i].dims ? &params->param[i].value[j] : &params->scalar[i].real;
            compared += expect_slope(loss, what, name, j, NULL, at, gradients.d_param[i][j]);
        }
        free(gradients.d_param[i]);
    }
    formula_reads_free(&reads);
    return compared;
}

/* Returns how many elements were compared. */
static int expect_slopes(struct loss *loss, struct params *params, const char *what) {
    const struct oracle_attention *p = &loss->p;
    struct formula *derivative = p->score ? formula_slope(p->score) : NULL;
    double dq[MOST], dk[MOST], dv[MOST], d_sinks[8];
    const struct oracle_gradients gradients = {dq, dk, dv, d_sinks, {0}};
    const struct oracle_backward problem = {
        .forward = p, .derivative = derivative, .o = loss->o, .lse = loss->lse, .d_o = loss->d_o, .d_lse = loss->d_lse};
    int compared = 0;
    loss_of(loss);
    oracle_backward(&problem, &gradients);
    int64_t kv = p->batch * p->kv_heads * p->len_kv;
    for (int64_t i = 0; i < p->batch * p->heads * p->len_q * HEAD_DIM; i += 5)
        compared += expect_slope(loss, what, "q", i, &loss->q[i], NULL, dq[i]);
    for (int64_t i = 0; i < kv * HEAD_DIM; i += 5)
        compared += expect_slope(loss, what, "k", i, &loss->k[i], NULL, dk[i]);
    for (int64_t i = 0; i < kv * HEAD_DIM_V; i += 5)
        compared += expect_slope(loss, what, "v", i, &loss->v[i], NULL, dv[i]);
    for (int64_t i = 0; p->sinks && i < p->heads; i++)
        compared += expect_slope(loss, what, "sinks", i, NULL, &loss->sinks[i], d_sinks[i]);
    compared += expect_param_slopes(loss, params, &problem, what);
    formula_free(derivative);
    return compared;
}

static int check_problem(const struct knobs *knobs, const struct shape *shape, const char *what) {
    static struct loss loss;
    struct text error = {0};
    struct params *params = params_make(knobs, shape, 3, &error);
    cr_assert(params, "%s: %s", what, text_string(&error));
    cr_assert(params_fit(params, &error), "%s: %s", what, text_string(&error));
    unsigned seed = 5;
    fill(loss.q, &seed);
    fill(loss.k, &seed);
    fill(loss.v, &seed);
    fill(loss.d_o, &seed);
    fill(loss.d_lse, &seed);
    for (int i = 0; i < 8; i++)
        loss.sinks[i] = (double)coarse(&seed);
    loss.p = (struct oracle_attention){.q = loss.q,
                                       .k = loss.k,
                                       .v = loss.v,
                                       .batch = shape->batch,
                                       .heads = shape->heads,
                                       .kv_heads = shape->kv_heads,
                                       .len_q = shape->len_q,
                                       .len_kv = shape->len_kv,
                                       .head_dim = HEAD_DIM,
                                       .head_dim_v = HEAD_DIM_V,
                                       .scale = 0.625,
                                       .causal = knobs->mask == mask_causal,
                                       .mask = params->formulas.mask,
                                       .score = params->formulas.score,
                                       .sinks = knobs->sinks ? loss.sinks : NULL,
                                       .env = &params->env};
    int compared = expect_slopes(&loss, params, what);
    params_free(params);
    text_free(&error);
    return compared;
}

static const struct shape small = {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 6, .len_kv = 9};

static struct knobs knobs_of(struct template_set *set, const struct spec *spec) {
    struct variants variants;
    struct variant variant;
    variants_open(&variants, spec, set);
    cr_assert(variants_next(&variants, &variant) && variant.feasible, "%s: %s", spec->input.name, variant.reason);
    return variant.knobs;
}

static void check_text(struct template_set *set, const char *name, const char *text, size_t size, int least) {
    struct diag diag = {0};
    struct spec *spec = spec_read(name, text, size, &diag);
    cr_assert(spec, "%s", text_string(&diag.text));
    struct knobs knobs = knobs_of(set, spec);
    int compared = check_problem(&knobs, &small, name);
    cr_expect_geq(compared, least, "%s: only %d elements have slopes", name, compared);
    spec_free(spec);
    diag_free(&diag);
}

Test(oracle_backward, every_recipe_of_the_cookbook_has_the_slopes_of_its_forward_pass) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    glob_t paths;
    cr_assert(set);
    cr_assert_eq(glob(SOURCE_DIR "/specs/cookbook/*.yaml", 0, NULL, &paths), 0);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        static char text[1 << 16];
        FILE *file = fopen(paths.gl_pathv[i], "rb");
        cr_assert(file);
        size_t size = fread(text, 1, sizeof text, file);
        fclose(file);
        check_text(set, paths.gl_pathv[i] + strlen(SOURCE_DIR) + 1, text, size, 50);
    }
    globfree(&paths);
    template_set_close(set);
}

/* Every function of a score, and what the cookbook does not have. */
Test(oracle_backward, other_problems_have_the_slopes_of_their_forward_pass) {
    static const char *const problems[] = {
        "mask: none",
        "mask: causal\n  sinks: 1",
        "mask: none\n  score: softcap(2)\n  sinks: 1",
        "mask: none\n  score: s * exp(-s * s)",
        "mask: none\n  score: log(1.5 + s * s)",
        "mask: none\n  score: sqrt(2.0 + s * s) - sigmoid(s) / 3.0",
        "mask: causal\n  score: min(s, 0.5) + max(s, -0.25) * 0.5 + abs(s)",
        "mask: causal\n  score: s * s if k % 2 == 0 else s / (2.0 + tanh(s))",
    };
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert(set);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        char text[512];
        int size =
            snprintf(text, sizeof text,
                     "family: attention_forward\nproblem:\n  %s\nschedule: {algorithm: materialized}\n", problems[i]);
        check_text(set, problems[i], text, (size_t)size, 50);
    }
    template_set_close(set);
}

Test(oracle_backward, a_weight_of_0_has_no_gradient_where_the_derivative_is_infinite) {
    struct formula_scope scope = {0};
    struct diag diag = {0};
    const float q[] = {1}, k[] = {0, 1}, v[] = {3, 5}, d_o[] = {1};
    struct formula_env env = {0};
    struct formula *score = formula_parse(FORMULA_SCORE, (struct place){0}, "log(s)", 6, &scope, &diag);
    struct formula *derivative = formula_slope(score);
    struct oracle_attention p = {q, k, v, 1, 1, 1, 1, 2, 1, 1, 1, .score = score, .env = &env};
    double o[1], lse[1], dq[1], dk[2], dv[2];
    cr_assert(oracle_attention(&p, o, lse)); /* scores -inf and 0 */
    oracle_backward(&(struct oracle_backward){.forward = &p, .derivative = derivative, .o = o, .lse = lse, .d_o = d_o},
                    &(struct oracle_gradients){.dq = dq, .dk = dk, .dv = dv});
    cr_expect_eq(dq[0], 0);
    cr_expect(dk[0] == 0 && dk[1] == 0);
    cr_expect(dv[0] == 0 && dv[1] == 1);
    formula_free(derivative);
    formula_free(score);
}
