/* attention_flash_async.cu and attention_flash_mma.cu on difficult data, with every way to keep the running maximum,
   against the oracle: scores that grow, jump, are infinite, equal or absent, and huge values. With `rescale: from_sum`
   a row's reference comes from its sum, and rows for which that was not enough are recomputed. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM = 40, HEADS_MOST = 2, TILE = 32, ROWS_MOST = 160, KEYS_MOST = 160, WORDS = 200 };

struct tensors {
    enum tolerance_type type;
    int heads, len_q, len_kv;
    float q[HEADS_MOST * ROWS_MOST * HEAD_DIM], k[KEYS_MOST * HEAD_DIM], v[KEYS_MOST * HEAD_DIM];
};

static struct kernel {
    const char *target, *mask, *input, *output, *schedule;
} kernels[] = {
    /* the first estimate of m looks at a quarter of the scores */
    {"sm_90a", "none", "bf16", "bf16",
     "algorithm=flash_async rescale=from_sum block_m=64 block_n=32 overlap=intra_warpgroup"},
    /* ... at all of them */
    {"sm_90a", "none", "bf16", "fp32", "algorithm=flash_async rescale=from_sum block_m=128 block_n=16 overlap=both"},
    {"sm_90a", "none", "bf16", "bf16",
     "algorithm=flash_async rescale=from_sum block_m=64 block_n=32 overlap=off store=direct scheduler=per_tile"},
    {"sm_90a", "causal", "bf16", "bf16", "algorithm=flash_async rescale=from_sum block_m=128 block_n=32 overlap=both"},
    {"sm_90a", "causal", "bf16", "fp32",
     "algorithm=flash_async rescale=from_sum block_m=192 block_n=16 overlap=intra_warpgroup"},
    {"sm_90a", "causal", "fp16", "fp16", "algorithm=flash_async rescale=lazy block_m=128 block_n=32 overlap=both"},
    {"sm_90a", "none", "fp16", "fp32",
     "algorithm=flash_async rescale=lazy block_m=64 block_n=16 overlap=intra_warpgroup"},
    {"sm_90a", "causal", "bf16", "bf16",
     "algorithm=flash_async rescale=always block_m=128 block_n=32 overlap=pingpong"},
    {"sm_80", "causal", "bf16", "bf16", "algorithm=flash_mma rescale=lazy block_m=128 block_n=32 threads=128 stages=2"},
    {"sm_80", "none", "fp16", "fp32", "algorithm=flash_mma rescale=always block_m=64 block_n=16 threads=128 stages=1"},
    /* split keys; some rows see nothing of some parts */
    {"sm_90a", "causal", "bf16", "bf16",
     "algorithm=flash_async rescale=from_sum block_m=128 block_n=32 overlap=both splits=3"},
    {"sm_90a", "none", "fp16", "fp32",
     "algorithm=flash_async rescale=from_sum block_m=64 block_n=16 overlap=intra_warpgroup splits=64"},
    {"sm_80", "causal", "bf16", "fp32",
     "algorithm=flash_mma rescale=lazy block_m=128 block_n=32 threads=128 stages=2 splits=4"},
    {"sm_80", "none", "bf16", "bf16",
     "algorithm=flash_mma rescale=from_sum block_m=128 block_n=32 threads=128 stages=2"},
    {"sm_80", "causal", "fp16", "fp16",
     "algorithm=flash_mma rescale=from_sum block_m=64 block_n=32 threads=128 stages=1"},
    {"sm_80", "none", "fp16", "fp32",
     "algorithm=flash_mma rescale=from_sum block_m=128 block_n=48 threads=128 stages=1"},
    {"sm_80", "causal", "bf16", "fp32",
     "algorithm=flash_mma rescale=from_sum block_m=128 block_n=32 threads=128 stages=3 splits=4"},
    {"sm_80", "causal", "fp32 precision=tf32x3", "fp32",
     "algorithm=flash_mma rescale=lazy block_m=128 block_n=32 threads=128 stages=2"},
    {"sm_80", "none", "fp32 precision=tf32", "fp32",
     "algorithm=flash_mma rescale=always block_m=64 block_n=16 threads=128 stages=1"},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const int shapes[][3] = {{1, 70, 150}, {1, 150, 70}, {2, 3, 32}}; /* heads, len_q, len_kv */
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct bench {
    att_session *session;
    att_kernel *kernel;
    struct tensors tensors;
};

static float *row(float *tensor, int i) { return tensor + i * HEAD_DIM; }

/* Fills the tensors with normal numbers. The first element of all queries is 1, so that the first element of a key
   shifts its score equally for all queries. */
static void fill(struct tensors *t, enum tolerance_type type, const int shape[3]) {
    unsigned seed = 5;
    t->type = type;
    t->heads = shape[0];
    t->len_q = shape[1];
    t->len_kv = shape[2];
    run_fill(t->q, t->heads * t->len_q * HEAD_DIM, type, &seed);
    run_fill(t->k, t->len_kv * HEAD_DIM, type, &seed);
    run_fill(t->v, t->len_kv * HEAD_DIM, type, &seed);
    for (int i = 0; i < t->heads * t->len_q; i++)
        row(t->q, i)[0] = 1;
}

static enum tolerance_type type_of(const char *name) {
    return strncmp(name, "fp32", 4) == 0 ? TOLERANCE_FP32 : strcmp(name, "fp16") == 0 ? TOLERANCE_FP16 : TOLERANCE_BF16;
}

static bool in_two_parts(const struct kernel *kernel) { return strstr(kernel->input, "tf32x3") != NULL; }

/* The type that the kernel rounds weights to. */
static enum tolerance_type weights_of(const struct kernel *kernel) {
    return in_two_parts(kernel)            ? TOLERANCE_TF32X3
           : strstr(kernel->input, "tf32") ? TOLERANCE_TF32
                                           : type_of(kernel->input);
}

static void check(struct bench *bench, int which, const char *name) {
    static float o[HEADS_MOST * ROWS_MOST * HEAD_DIM], lse[HEADS_MOST * ROWS_MOST];
    static double right[HEADS_MOST * ROWS_MOST * HEAD_DIM], slack[HEADS_MOST * ROWS_MOST * HEAD_DIM];
    static double right_lse[HEADS_MOST * ROWS_MOST], slack_lse[HEADS_MOST * ROWS_MOST];
    const struct kernel *kernel = &kernels[which];
    const struct tensors *t = &bench->tensors;
    enum tolerance_type output = type_of(kernel->output);
    struct oracle_attention p = {t->q,     t->k,     t->v,     1,
                                 t->heads, 1,        t->len_q, t->len_kv,
                                 HEAD_DIM, HEAD_DIM, 1,        .causal = !strcmp(kernel->mask, "causal")};
    run_attention(bench->session, bench->kernel, t->type, output, &p, o, lse, NULL);
    cr_assert(oracle_attention(&p, right, right_lse));
    cr_assert(tolerance_attention(&p, weights_of(kernel), output, right, right_lse, slack, slack_lse));
    int wrong = 0, first = 0, wrong_lse = 0, first_lse = 0;
    for (int i = 0; i < t->heads * t->len_q * HEAD_DIM; i++)
        if (!tolerance_accepts(output, right[i], (double)o[i], slack[i]) && !wrong++)
            first = i;
    for (int i = 0; i < t->heads * t->len_q; i++)
        if (!tolerance_accepts(TOLERANCE_FP32, right_lse[i], (double)lse[i], slack_lse[i]) && !wrong_lse++)
            first_lse = i;
    cr_expect(!wrong, "%s, %d x %d, %s %s %s: %d wrong, o[%d][%d] is %.9g, not %.9g within %.2g", name, t->len_q,
              t->len_kv, kernel->mask, kernel->input, kernel->schedule, wrong, first / HEAD_DIM, first % HEAD_DIM,
              (double)o[first], right[first], slack[first]);
    cr_expect(!wrong_lse, "%s, %d x %d, %s %s %s: %d wrong, lse[%d] is %.9g, not %.9g within %.2g", name, t->len_q,
              t->len_kv, kernel->mask, kernel->input, kernel->schedule, wrong_lse, first_lse, (double)lse[first_lse],
              right_lse[first_lse], slack_lse[first_lse]);
}

/* Changes the tensors by `argument`, and describes the change in `name`. */
typedef void change(struct tensors *t, float argument, char name[WORDS]);

/* --- scores that grow ---------------------------------------------------------------------------------------------- */

static void grow_by_tile(struct tensors *t, float step, char name[WORDS]) {
    for (int key = 0; key < t->len_kv; key++)
        row(t->k, key)[0] = run_round(step * (float)(key / TILE), t->type);
    snprintf(name, WORDS, "each tile %g above the one before it", (double)step);
}

static void jump(struct tensors *t, int key, float by, char name[WORDS]) {
    if (key < t->len_kv)
        row(t->k, key)[0] = by;
    snprintf(name, WORDS, "key %d %g above the others", key, (double)by);
}
static void jump_seen(struct tensors *t, float by, char name[WORDS]) { jump(t, 2, by, name); }
static void jump_unseen_at_first(struct tensors *t, float by, char name[WORDS]) { jump(t, 17, by, name); }
static void jump_in_the_middle(struct tensors *t, float by, char name[WORDS]) { jump(t, 45, by, name); }

static void outliers(struct tensors *t, float factor, char name[WORDS]) {
    for (int i = 7; i < t->heads * t->len_q * HEAD_DIM; i += 97)
        t->q[i] = run_round(t->q[i] * factor, t->type);
    for (int i = 3; i < t->len_kv * HEAD_DIM; i += 101)
        t->k[i] = run_round(t->k[i] * factor, t->type);
    snprintf(name, WORDS, "outliers of %g", (double)factor);
}

/* Makes scores as large as the square of the factor, with few of them alike. */
static void enlarge(struct tensors *t, float factor, char name[WORDS]) {
    for (int i = 0; i < t->heads * t->len_q * HEAD_DIM; i++)
        t->q[i] = run_round(t->q[i] * factor, t->type);
    for (int i = 0; i < t->len_kv * HEAD_DIM; i++)
        t->k[i] = run_round(t->k[i] * factor, t->type);
    snprintf(name, WORDS, "all of Q and K %g times as large", (double)factor);
}

static void all_equal(struct tensors *t, float value, char name[WORDS]) {
    for (int i = 0; i < t->heads * t->len_q * HEAD_DIM; i++)
        t->q[i] = value;
    for (int i = 0; i < t->len_kv * HEAD_DIM; i++)
        t->k[i] = value;
    snprintf(name, WORDS, "all equal to %g", (double)value);
}

/* --- what is not finite -------------------------------------------------------------------------------------------- */

/* Sets the first element of keys to -infinity, and so their scores. */
static void lose(struct tensors *t, int from, int to, int step) {
    for (int key = from; key < to && key < t->len_kv; key += step)
        row(t->k, key)[0] = -INFINITY;
}
static void infinite_keys(struct tensors *t, float which, char name[WORDS]) {
    int tiles = (t->len_kv + TILE - 1) / TILE;
    static const char *const names[] = {
        "the last tile",          "all but the first tile", "all", "the first tile", "one",
        "a quarter of each tile", "all but the last"};
    snprintf(name, WORDS, "infinite keys: %s", names[(int)which]);
    switch ((int)which) {
    case 0: lose(t, (tiles - 1) * TILE, t->len_kv, 1); break;
    case 1: lose(t, TILE, t->len_kv, 1); break;
    case 2: lose(t, 0, t->len_kv, 1); break;
    case 3: lose(t, 0, TILE, 1); break;
    case 4: lose(t, t->len_kv / 2, t->len_kv, t->len_kv); break;
    case 5:
        for (int i = 0; i < 8; i++)
            lose(t, i, t->len_kv, TILE);
        break;
    case 6: lose(t, 0, t->len_kv - 1, 1); break;
    }
}

/* As above, but the remaining scores are far from 0, so that m = 0 would not do. */
static void infinite_keys_and_a_shift(struct tensors *t, float shift, char name[WORDS]) {
    for (int key = 0; key < t->len_kv; key++)
        row(t->k, key)[0] = shift;
    for (int i = 0; i < 8; i++)
        lose(t, i, t->len_kv, TILE);
    snprintf(name, WORDS, "infinite keys, the others %g", (double)shift);
}

static void not_a_number(struct tensors *t, float which, char name[WORDS]) {
    static const char *const names[] = {"Q",
                                        "the first key",
                                        "the last key",
                                        "the first value",
                                        "the last value",
                                        "infinite value",
                                        "the last column of a value",
                                        "a column of all values",
                                        "every 37th element of V",
                                        "values that are infinite with either sign",
                                        "columns of the first value and in others of a late one"};
    snprintf(name, WORDS, "NaN in %s", names[(int)which]);
    switch ((int)which) {
    case 0: row(t->q, t->len_q / 2)[3] = NAN; break;
    case 1: row(t->k, 0)[3] = NAN; break;
    case 2: row(t->k, t->len_kv - 1)[3] = NAN; break;
    case 3: row(t->v, 0)[3] = NAN; break;
    case 4: row(t->v, t->len_kv - 1)[3] = NAN; break;
    case 5: row(t->v, t->len_kv - 2)[3] = INFINITY; break;
    case 6: row(t->v, t->len_kv - 2)[HEAD_DIM - 1] = NAN; break; /* outside the first pass over columns */
    case 7:
        for (int key = 0; key < t->len_kv; key++)
            row(t->v, key)[5] = NAN;
        break;
    case 8:
        for (int i = 0; i < t->len_kv * HEAD_DIM; i += 37)
            t->v[i] = NAN;
        break;
    case 9: /* a row may see one of them, or both, whose sum is NaN */
        row(t->v, t->len_kv - 3)[3] = -INFINITY;
        row(t->v, t->len_kv - 2)[3] = INFINITY;
        row(t->v, t->len_kv - 2)[4] = -INFINITY;
        break;
    case 10: /* rows that see only the first: 37 is NaN, 4 is infinite, 36 is neither; the two have separate passes */
        row(t->v, 0)[37] = row(t->v, t->len_kv - 2)[4] = row(t->v, t->len_kv - 2)[36] = NAN;
        row(t->v, 0)[4] = INFINITY;
        break;
    }
}

/* An infinity split into parts gives NaN (docs/numerics.md). */
static bool is_infinite(change *how, float argument) {
    return how == infinite_keys || how == infinite_keys_and_a_shift ||
           (how == not_a_number && (argument == 5 || argument >= 9));
}

/* --- values that are huge ------------------------------------------------------------------------------------------ */

static void huge_values(struct tensors *t, float step, char name[WORDS]) {
    for (int i = 0; i < t->len_kv * HEAD_DIM; i++)
        t->v[i] = run_round(t->v[i] * 1e30f, t->type);
    grow_by_tile(t, step, name);
    strncat(name, ", values of 1e30", WORDS - strlen(name) - 1);
}

/* --- all of it ------------------------------------------------------------------------------------------------------ */

enum { ARGUMENTS = 24 };
static const struct {
    change *change;
    float argument[ARGUMENTS];
    int arguments;
} cases[] = {
    {grow_by_tile, {0, 20, 29, 61, 86, 88, 200, 10000, -5, -29, -61, -86, -87.5f, -88, -200, -10000}, 16},
    {jump_seen, {61, 87.5f, 89, 300}, 4},
    {jump_unseen_at_first, {61, 87.5f, 89, 300}, 4},
    {jump_in_the_middle, {61, 87.5f, 89, 300}, 4},
    {outliers, {50, 400}, 2},
    {enlarge, {77, 3000, 12000}, 3},
    {all_equal, {0, 1, 64}, 3},
    {infinite_keys, {0, 1, 2, 3, 4, 5, 6}, 7},
    {infinite_keys_and_a_shift, {-200, -90, 70, 200}, 4},
    {not_a_number, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11},
    {huge_values, {0, 20, 29, -10, -20, -61}, 6},
};

/* One process for each kernel, since kernels take the time. */
ParameterizedTestParameters(flash_async, unkind_data_agrees_with_the_oracle) {
    static int which[KERNELS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    return cr_make_param_array(int, which, KERNELS);
}
ParameterizedTest(int *which, flash_async, unkind_data_agrees_with_the_oracle) {
    static struct bench bench;
    const struct kernel *kernel = &kernels[*which];
    char problem[160], name[WORDS];
    snprintf(problem, sizeof problem, "family=attention_forward target=%s dtype=%s dtype_out=%s mask=%s head_dim=%d",
             kernel->target, kernel->input, kernel->output, kernel->mask, HEAD_DIM);
    bench.session = run_open();
    bench.kernel = run_find(bench.session, problem, kernel->schedule);
    for (int i = 0; i < SHAPES; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (int a = 0; a < cases[c].arguments; a++) {
                if (in_two_parts(kernel) && is_infinite(cases[c].change, cases[c].argument[a]))
                    continue;
                if (strstr(kernel->input, "tf32") && cases[c].change == enlarge)
                    continue; /* scores this large are off by more than 1, and the bound is of first order */
                fill(&bench.tensors, type_of(kernel->input), shapes[i]);
                cases[c].change(&bench.tensors, cases[c].argument[a], name);
                check(&bench, *which, name);
            }
    att_close(bench.session);
}
