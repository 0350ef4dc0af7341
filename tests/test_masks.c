/* Masks and scores that are expressions, from a problem's text to numbers: every kernel family on the host device against
   the oracle, what a launch refuses, and which tiles are really loaded. */
#include "check.h"
#include "helper_device.h"
#include "helper_formula.h"
#include "helper_part.h"
#include "oracle.h"
#include "session.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTENTION "family=attention_forward dtype=fp32 head_dim=8 "
#define AMPERE    "family=attention_forward dtype=bf16 head_dim=64 target=sm_80 "
#define HOPPER    "family=attention_forward dtype=bf16 head_dim=64 target=sm_90a "

static const char hopper[] = "algorithm=flash_async block_m=64 block_n=32";
static const char *const schedules[] = {
    "algorithm=materialized",
    "algorithm=multi_pass",
    "algorithm=flash",
    "algorithm=flash_tiled loop_order=q_outer block_m=32 block_n=16 thread_m=4 thread_n=4",
    "algorithm=flash_tiled loop_order=kv_outer block_m=16 block_n=16",
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s; %s: %s", problem, schedule,
                 att_message(session));
    return kernel;
}

/* Two seeds in five set every integer of the mask and the score, and nothing else, to an end of its range. */
static struct workload make(const att_kernel *kernel, const struct shape *shape, uint64_t seed) {
    struct workload workload;
    struct text error = {0}, given = {0};
    struct formula_set set;
    cr_assert(formula_set_open(&set, &kernel->variant.knobs));
    for (int i = 0; seed % 5 < 2 && i < set.scope.count; i++)
        if (set.scope.param[i].dims == 0 && set.scope.param[i].type == FORMULA_INT)
            text_print(&given, "%s=%d,", set.scope.param[i].name, seed % 5 ? FORMULA_SCALAR : -FORMULA_SCALAR);
    formula_set_close(&set);
    struct workload_files files = {.params = text_string(&given)};
    cr_assert(workload_make(&workload, &kernel->variant.knobs, shape, &files, seed, &error), "%s", text_string(&error));
    text_free(&given);
    return workload;
}

/* --- what a text means ------------------------------------------------------------------------------------------- */

Test(masks, an_expression_that_says_what_a_word_says_is_that_word) {
    static const struct {
        const char *written, *same;
    } cases[] = {
        {"mask=\"k <= q\"", "mask=causal"},
        {"mask=\"q >= k\"", "mask=causal"},
        {"mask=\"true\"", "mask=none"},
        {"score=\"s\"", ""},
        {"mask=\"causal and k <= q\"", "mask=causal"},
        {"mask='sliding_window(window, 0)' params=\"window: int\"",
         "mask=\"k - q <= 0 and q - k <= window\" params=\"window: int\""},
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[256], b[256];
        snprintf(a, sizeof a, ATTENTION "%s", cases[i].written);
        snprintf(b, sizeof b, ATTENTION "%s", cases[i].same);
        bool same = find(session, a, schedules[2]) == find(session, b, schedules[2]);
        cr_expect(same || i == 5, "%s is another kernel than %s", a, b); /* the order of a conjunction is kept */
    }
    att_close(session);
}

Test(masks, a_variant_reads_back_as_the_same_variant) {
    att_session *session = open_test_device(ATT_HOST_CHECK);
    att_kernel *kernel = find(session,
                              ATTENTION "mask=\"doc[b, k] == 1 or q - k < window\" score=\"softcap(20.0)\" sinks=1 "
                                        "params=\"window: int, doc: int[batch, len_kv]\"",
                              schedules[2]);
    struct text text = {0};
    struct knobs knobs = knobs_filled(AUTO);
    struct diag diag = {0};
    variant_print(&kernel->variant, &text);
    struct input input = {"variant", text.bytes, text.size};
    cr_assert(knobs_parse(&input, 7, &knobs, &diag), "%s\n%s", text.bytes, text_string(&diag.text));
    for (int id = 0; id < KNOB_COUNT; id++)
        cr_expect(knob_same(&knobs, &kernel->variant.knobs, (enum knob_id)id), "%s in %s", knob_table[id].name,
                  text.bytes);
    cr_expect(strstr(text.bytes, "params: \"window: int, doc: int[batch, len_kv]\""), "%s", text.bytes);
    cr_expect(strstr(text.bytes, "sinks: 1"), "%s", text.bytes);
    text_free(&text);
    att_close(session);
}

Test(masks, texts_that_cannot_be_meant_are_refused_with_the_place) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"mask=\"k <= p\"", ":1:59: error: unknown name 'p'"},
        {"mask=\"k + q\"", "error"},
        {"score=\"k <= q\"", "error"},
        {"mask=\"k <= q", "this quote is not closed"},
        {"mask=\"q - k < window\"", "unknown name 'window'"},
        {"params=\"window: int\"", "parameter 'window' is declared, and neither mask nor score depends on it"},
        {"mask=\"k <= q or 0 * w < 0 and k < 7\" params=\"w: int\"",
         "neither mask nor score depends on it; leave it out"},
        {"mask=\"q - k < window\" params=\"window int\"", "expected NAME: TYPE"},
        {"mask=\"q - k < window\" params=\"window: integer\"", "error"},
        {"mask=\"q - k < sinks\" params=\"sinks: int\"", "'sinks' is the tensor of knob sinks"},
        {"mask=\"q - k < w\" params=\"w: int\" params=\"w: int\"", "params is given twice"},
        {"mask=custom_mask", "write the expression itself"},
        {"mask=", "mask takes a word or an expression"},
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[256];
        att_kernel *kernel;
        snprintf(problem, sizeof problem, ATTENTION "%s", cases[i].text);
        cr_expect_eq(att_find(session, problem, NULL, &kernel), ATT_INVALID_TEXT, "%s", problem);
        cr_expect(strstr(att_message(session), cases[i].expected), "%s: %s", problem, att_message(session));
    }
    att_close(session);
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

/* Runs a kernel on one workload. Counts refused launches, since not every random index stays in its tensor. */
static bool runs_right(att_session *session, const char *problem, const char *schedule, const struct shape *shape,
                       uint64_t seed, bool spread, int *refused) {
    att_kernel *kernel = find(session, problem, schedule);
    struct workload workload = make(kernel, shape, seed);
    struct check_options options = {.layout = spread ? LAYOUT_SPREAD : LAYOUT_PACKED, .shown = 3};
    struct check_result result;
    bool right = check_run(session, kernel, &workload, &options, &result);
    bool outside = result.status != ATT_OK && strstr(text_string(&result.report), "may run from");
    *refused += outside;
    cr_expect(right || outside, "%s\n%s\nlen_q %d, len_kv %d, seed %d\n%s", problem, schedule, (int)shape->len_q,
              (int)shape->len_kv, (int)seed, text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    return right;
}

static const char params_of_fixture[] =
    "window: int, wide: bool, cap: float, doc: int[batch, len_kv], slope: float[heads], "
    "seen: bool[len_q, len_kv], bias: float[heads, len_q, len_kv]";

/* "window: int, ...": the fixture's parameters that a random formula names. */
static void print_params(const char *mask, const char *score, struct text *text) {
    static const char *const names[] = {"window", "wide", "cap", "doc", "slope", "seen", "bias"};
    const char *at = params_of_fixture;
    const char *separator = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *next = i + 1 < sizeof names / sizeof *names ? strstr(at, names[i + 1]) : at + strlen(at) + 2;
        if (strstr(mask, names[i]) || strstr(score, names[i])) {
            text_print(text, "%s%.*s", separator, (int)(next - at) - 2, at);
            separator = ", ";
        }
        at = next;
    }
}

/* Draws a random mask, or score, or both. The caller draws again if the result is the same as a built-in word. */
static bool draw(unsigned *seed, enum formula_flavor flavor, struct text *problem) {
    struct text mask = {0}, score = {0}, params = {0};
    if (flavor != FLAVOR_SCORE)
        formula_draw(flavor, 3, seed, &mask);
    if (flavor == FLAVOR_SCORE || formula_random(seed, 3) == 0)
        formula_draw(FLAVOR_SCORE, 2, seed, &score);
    print_params(text_string(&mask), text_string(&score), &params);
    text_print(problem, ATTENTION);
    if (mask.size)
        text_print(problem, "mask=\"%s\" ", mask.bytes);
    if (score.size)
        text_print(problem, "score=\"%s\" ", score.bytes);
    if (params.size)
        text_print(problem, "params=\"%s\" ", params.bytes);
    if (formula_random(seed, 4) == 0)
        text_print(problem, "sinks=1");
    struct knobs knobs = knobs_default();
    struct input input = {"random", problem->bytes, problem->size};
    struct diag diag = {0};
    bool good = knobs_parse(&input, 7, &knobs, &diag); /* a name in `params` may have been simplified away */
    diag_free(&diag);
    text_free(&mask);
    text_free(&score);
    text_free(&params);
    return good;
}

static void try_random_formulas(enum formula_flavor flavor, unsigned seed, int wanted) {
    static const struct shape shapes[] = {
        {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 37, .len_kv = 70},
        {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 33},
        {.batch = 2, .heads = 1, .kv_heads = 1, .len_q = 1, .len_kv = 40},
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int made = 0, right = 0, refused = 0;
    for (int tries = 0; made < wanted && tries < 40 * wanted; tries++) {
        struct text problem = {0};
        if (draw(&seed, flavor, &problem)) {
            for (int i = 0; i < 2 && shard_has(made, 2); i++) /* each formula on two families, all families in turn */
                for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
                    right += runs_right(session, problem.bytes, schedules[(2 * made + i) % SCHEDULES], &shapes[j],
                                        (uint64_t)(made + i), (made + i) % 2, &refused);
            made++;
        }
        text_free(&problem);
    }
    cr_expect_eq(made, wanted);
    cr_expect_gt(right, refused, "%d right, %d refused", right, refused);
    att_close(session);
}

/* Bounds beyond 32 bits: possibly there is no first visible key at all. */
Test(masks, limits_at_the_ends_of_their_range_agree_with_the_oracle) {
    static const struct shape shape = {.batch = 1, .heads = 4, .kv_heads = 2, .len_q = 40, .len_kv = 70};
    static const char *const problems[] = {
        "mask='k > t[h]' params='t: int[heads]'",
        "mask='k >= w * 4' params='w: int'",
        "mask='k >= w * 4 or k < t[h]' params='w: int, t: int[heads]'",
        "mask='t[h] - q < k and k - w < t[h]' params='w: int, t: int[heads]'",
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int schedule = 0; schedule <= SCHEDULES; schedule++) {
            char problem[256];
            if (!shard_has((int)i + schedule, 2))
                continue;
            bool on_hopper = schedule == SCHEDULES;
            snprintf(problem, sizeof problem, "%s%s", on_hopper ? HOPPER : ATTENTION, problems[i]);
            for (uint64_t seed = 10; seed < 12; seed++) /* 11: tensors have ends too */
                runs_right(session, problem, on_hopper ? hopper : schedules[schedule], &shape, seed, false, &refused);
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

Test(masks, random_masks_agree_with_the_oracle) { try_random_formulas(FLAVOR_MASK, 1, 6); }
Test(masks, random_affine_masks_agree_with_the_oracle) { try_random_formulas(FLAVOR_AFFINE, 2, 6); }
Test(masks, random_scores_agree_with_the_oracle) { try_random_formulas(FLAVOR_SCORE, 3, 6); }

/* Checks random formulas on a tensor-core kernel. `common` is the problem without its formulas. */
static void check_random(const char *common, const char *const ways[2], unsigned seed) {
    static const struct shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 230, .len_kv = 130};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int made = 0, right = 0, refused = 0;
    for (int tries = 0; made < 6 && tries < 240; tries++) {
        struct text drawn = {0}, problem = {0};
        if (draw(&seed, (enum formula_flavor)(made % 3), &drawn)) {
            text_print(&problem, "%s%s", common, drawn.bytes + strlen(ATTENTION));
            right += runs_right(session, problem.bytes, ways[made % 2], &shape, (uint64_t)made, made % 2, &refused);
            made++;
        }
        text_free(&drawn);
        text_free(&problem);
    }
    cr_expect_gt(right, refused, "%d right, %d refused", right, refused);
    att_close(session);
}

/* The Hopper kernel sorts tiles of its own and has two ways to know them. With three warpgroups per Q tile, each goes
   over its own tiles. */
Test(masks, random_formulas_agree_with_the_oracle_on_the_hopper_kernel) {
    check_random(HOPPER, (const char *const[]){hopper, "algorithm=flash_async block_m=192 block_n=16"}, 4);
}

/* With two units per warp, each has its own mask over the same tiles. */
Test(masks, random_formulas_agree_with_the_oracle_on_the_kernel_for_mma) {
    check_random("family=attention_forward dtype=bf16 head_dim=64 target=sm_80 ",
                 (const char *const[]){"algorithm=flash_mma block_m=128 threads=128 block_n=32 stages=2",
                                       "algorithm=flash_mma block_m=64 threads=128 block_n=16 stages=1"},
                 7);
}

/* m is kept in tiles that no mask cuts: between others, after them, for only one unit of a warp, or nowhere. */
Test(masks, the_kernel_for_mma_keeps_m_in_whole_tiles) {
    static const struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 200, .len_kv = 230};
    static const char *const problems[] = {
        "mask='k <= q and q - k < 150'",
        "mask='k < 100 or k >= 170 or k % 2 == q % 2'",
        "mask='q // 47 == k // 47' sinks=1",
        "mask='k < w' params='w: int'",
    };
    static const char *const ways[] = {
        "algorithm=flash_mma block_m=128 threads=128 block_n=32 stages=2 rescale=from_sum overlap=halves",
        "algorithm=flash_mma block_m=64 threads=128 block_n=48 stages=1 rescale=from_sum overlap=output"};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
            char problem[256];
            snprintf(problem, sizeof problem, "family=attention_forward dtype=bf16 head_dim=16 target=sm_80 %s",
                     problems[i]);
            cr_expect(runs_right(session, problem, ways[j], &shape, 80 + i, false, &refused));
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* Scores that the Hopper kernel folds into its exponential; tanh of small and of large numbers; scores that grow from
   key to key faster than any row sum may; rows that see a finite score late, or never. */
Test(masks, the_hopper_kernel_follows_scores_of_any_form) {
    static const struct shape shape = {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 90, .len_kv = 200};
    static const char *const problems[] = {
        "score='softcap(30)'",
        "score='softcap(5)'",
        "score='softcap(1)'",
        "score='-3 * tanh(-2 * s / 3)'",
        "score='softcap(1e9)'",
        "score='1e-38 * tanh(s)'",
        "mask=causal score='softcap(5) then alibi(slope)' params='slope: float[heads]'",
        "score='s + 40 * (k - q)'",
        "score='100 - 40 * abs(q - k) + s'",
        "score='s - 1.5 * (k + q) / 2'",
        "mask='q - k < 70 or k < 9' score='s if k < 40 else -inf'",
        "mask='k <= q and k % 3 > 0' score='s if (k + q) % 64 < 9 else -inf' sinks=1",
    };
    static const char *const rescales[] = {"from_sum", "lazy"};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t j = 0; j < (i < 9 ? 1 : 2); j++) {
            char problem[256], schedule[128];
            snprintf(problem, sizeof problem, HOPPER "%s", problems[i]);
            snprintf(schedule, sizeof schedule, "%s rescale=%s", hopper, rescales[j]);
            cr_expect(runs_right(session, problem, schedule, &shape, 40 + i, i % 2, &refused));
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* A document ends one key before a K/V tile does, so queries of the next document see only the last key
   of that tile. */
Test(masks, the_hopper_kernel_needs_a_tile_for_its_last_key) {
    static const struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 200, .len_kv = 200};
    static const char *const ways[] = {"algorithm=flash_async block_m=64 block_n=16",
                                       "algorithm=flash_async block_m=192 block_n=16"};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        cr_expect(runs_right(session, HOPPER "mask='q // 47 == k // 47'", ways[i], &shape, 70, false, &refused));
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* Tensors indexed by key: read in pairs where their layout allows that, one by one where not. */
Test(masks, the_hopper_kernel_reads_tensors_however_they_lie) {
    static const struct shape shapes[] = {
        {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 90, .len_kv = 200},
        {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 75},
    };
    static const char *const problems[] = {
        "score='bias(values)' params='values: bf16[heads, len_q, len_kv]'",
        "score='s + values[h, q - (len_kv - len_q), k]' params='values: float[heads, len_q, len_kv]'",
        "score='relative(values)' params='values: fp16[heads, len_q + len_kv - 1]'",
        ("mask=causal score='s + (values[k] if flags[b, k] else -words[k] * 1e-9)' "
         "params='values: fp16[len_kv], words: int[len_kv], flags: bool[batch, len_kv]'"),
        "score='s + values[k, h] - 1e-9 * (k * q)' params='values: bf16[len_kv, heads]'",
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t j = 0; j < 2 * sizeof shapes / sizeof *shapes; j++) {
            char problem[256];
            snprintf(problem, sizeof problem, HOPPER "%s", problems[i]);
            cr_expect(runs_right(session, problem, hopper, &shapes[j / 2], 50 + i, j % 2, &refused));
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* Rows of a tensor that a score adds are copied to shared memory before s is known, for any tiles of a warpgroup in any
   order. Rows that are not made of 16-byte pieces, and the last tile, are filled in. */
Test(masks, the_hopper_kernel_copies_ahead_what_a_score_adds) {
    static const struct shape shapes[] = {
        {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 230, .len_kv = 264},
        {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 75},
    };
    static const char *const problems[] = {
        "mask=causal score='bias(values)' params='values: bf16[heads, len_q, len_kv]'",
        "mask='k <= q and q - k < 40' score='s * 0.5 - values[b, k] * 3 then tanh(s)' params='values: fp16[batch, "
        "len_kv]'",
        "mask='k < 90 or k % 64 < 9' score='s + values[q % heads, k] * (k - q) * 0.01' params='values: bf16[heads, "
        "len_kv]'",
        "mask=causal score='(s if k < 9 else s + 1) + values[h, q, k]' params='values: fp16[heads, len_kv, len_kv]' "
        "sinks=1",
    };
    static const char *const ways[] = {
        "algorithm=flash_async block_m=192 block_n=16",
        "algorithm=flash_async block_m=64 block_n=48 cluster=2",
        "algorithm=flash_async block_m=128 block_n=32 overlap=both",
        "algorithm=flash_async block_m=128 block_n=64 overlap=pingpong scheduler=per_tile",
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t j = 0; j < 4; j++) {
            const char *way = ways[(i + j / 2) % (sizeof ways / sizeof *ways)];
            char problem[256];
            snprintf(problem, sizeof problem, HOPPER "%s", problems[i]);
            att_kernel *kernel = find(session, problem, way);
            cr_expect(strstr(att_kernel_source(kernel), "copy_bias_rows"), "%s is not copied ahead", problem);
            cr_expect(runs_right(session, problem, way, &shapes[j % 2], 60 + i, i % 2, &refused));
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* The same for the tensor-core kernel since Ampere, whose warps copy what is added to their own rows: in pieces of 16
   bytes, in words, or element by element. */
Test(masks, the_ampere_kernel_copies_ahead_what_a_score_adds) {
    static const struct shape shapes[] = {
        {.batch = 2, .heads = 4, .kv_heads = 2, .len_q = 130, .len_kv = 168},
        {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 70},
        {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 75},
    };
    static const char *const problems[] = {
        "mask=causal score='bias(values)' params='values: bf16[heads, len_q, len_kv]'",
        "mask='k <= q and q - k < 40' score='s * 0.5 - values[b, k] * 3 then tanh(s)' params='values: fp16[batch, "
        "len_kv]'",
        "mask='k < 90 or k % 64 < 9' score='s + values[q % heads, k] * (k - q) * 0.01' params='values: bf16[heads, "
        "len_kv]'",
        "score='(s if k < 9 else s + 1) + values[h, q, k]' params='values: fp16[heads, len_kv, len_kv]' sinks=1",
    };
    static const char *const ways[] = {
        "algorithm=flash_mma",
        "algorithm=flash_mma block_m=128 threads=256 block_n=48 stages=3 rescale=from_sum overlap=output",
        "algorithm=flash_mma block_m=64 threads=128 block_n=32 stages=1 rescale=lazy",
        "algorithm=flash_mma block_m=128 threads=128 block_n=80 stages=2 rescale=lazy",
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t j = 0; j < 2 * sizeof shapes / sizeof *shapes; j++) {
            const char *way = ways[(i + j) % (sizeof ways / sizeof *ways)];
            char problem[256];
            snprintf(problem, sizeof problem, AMPERE "%s", problems[i]);
            att_kernel *kernel = find(session, problem, way);
            cr_expect(strstr(att_kernel_source(kernel), "copy_bias_pieces"), "%s is not copied ahead", problem);
            cr_expect(runs_right(session, problem, way, &shapes[j / 2], 80 + i, j % 2, &refused));
        }
    cr_expect_eq(refused, 0);
    att_close(session);
}

/* Unseen keys hold NaN. A key whose score is -inf has no weight. */
Test(masks, what_is_not_seen_has_no_say) {
    static const char *const problems[] = {
        ATTENTION "mask=\"k % 3 != 1\"",
        ATTENTION "mask=\"k % 3 != 1 and k <= q\" score=\"s * 2.0\"",
        ATTENTION "mask=\"k % 3 != 1 and q - k < 9\" sinks=1",
        ATTENTION "mask=\"k % 3 != 1\" score=\"s if q % 2 == 0 else -inf\"",
        ATTENTION "mask=\"k < 0\" sinks=1",
        ATTENTION "mask=\"k < 0\"",
    };
    const struct shape shape = {.batch = 1, .heads = 2, .kv_heads = 2, .len_q = 20, .len_kv = 50};
    struct check_options options = {.layout = LAYOUT_SPREAD, .shown = 3};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int j = 0; j <= SCHEDULES; j++) {
            char problem[256];
            int dim = j < SCHEDULES ? 8 : 64;
            snprintf(problem, sizeof problem, "%s%s", j < SCHEDULES ? ATTENTION : HOPPER,
                     problems[i] + strlen(ATTENTION));
            const char *schedule = j < SCHEDULES ? schedules[j] : hopper;
            att_kernel *kernel = find(session, problem, schedule);
            struct workload workload = make(kernel, &shape, 3);
            for (int tensor = 1; tensor <= 2; tensor++)
                for (int64_t e = 0; e < workload.input[tensor].count; e++)
                    if (e / dim % shape.len_kv % 3 == 1)
                        workload.input[tensor].value[e] = NAN; /* set after the answer: it must not matter */
            struct check_result result;
            cr_expect(check_run(session, kernel, &workload, &options, &result), "%s\n%s\n%s", problems[i], schedules[j],
                      text_string(&result.report));
            check_free(&result);
            workload_free(&workload);
        }
    att_close(session);
}

/* Scores of several rows share a reciprocal where tanh is far from 0, but a NaN stays in its own row. */
Test(masks, a_query_of_nan_spoils_no_other) {
    static const struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 20, .len_kv = 50};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    att_kernel *kernel = find(session, HOPPER "score='softcap(0.5)'", hopper);
    struct workload workload = make(kernel, &shape, 9);
    enum { ROW = 5, DIM = 64 };
    for (int i = 0; i < DIM; i++) {
        workload.input[0].value[ROW * DIM + i] = NAN;
        workload.output[0].expected[ROW * DIM + i] = NAN;
    }
    workload.output[1].expected[ROW] = NAN;
    struct check_options options = {.layout = LAYOUT_PACKED, .shown = 3};
    struct check_result result;
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s", text_string(&result.report));
    check_free(&result);
    workload_free(&workload);
    att_close(session);
}

/* --- what a launch refuses --------------------------------------------------------------------------------------- */

Test(masks, a_launch_refuses_parameters_that_cannot_be_right) {
    static int32_t doc[2][40];
    static float q[2][2][8][8], o[2][2][8][8], k[2][2][40][8];
    const struct att_param window = {.name = "window", .type = ATT_PARAM_INT, .number = 4};
    const struct att_param ids = {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {2, 40}};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    att_kernel *kernel = find(session,
                              ATTENTION "mask=\"q - k < window and doc[b, k] == 0\" "
                                        "params=\"window: int, doc: int[batch, len_kv]\"",
                              schedules[3]);
    const struct {
        struct att_param param[3];
        int count;
        const char *expected; /* null = accepted */
    } cases[] = {
        {{window, ids}, 2, NULL},
        {{ids, window}, 2, NULL},
        {{window}, 1, "params: 'doc' is missing; it is declared as doc: int[batch, len_kv]"},
        {{window, window, ids}, 3, "'window' is given twice"},
        {{window, ids, {.name = "other"}}, 3, "declares no 'other'"},
        {{window, ids, {.name = NULL}}, 3, "its name is null"},
        {{{.name = "window", .type = ATT_PARAM_FP32, .number = 4}, ids},
         2,
         "its type is ATT_PARAM_FP32, expected ATT_PARAM_INT"},
        {{{.name = "window", .number = 4}, ids}, 2, "its type is no type"},
        {{{.name = "window", .type = ATT_PARAM_INT, .number = 4.5}, ids}, 2, "window is 4.5, expected an integer"},
        {{{.name = "window", .type = ATT_PARAM_INT, .number = NAN}, ids}, 2, "expected an integer"},
        {{{.name = "window", .type = ATT_PARAM_INT, .number = 0x1p40}, ids}, 2, "expected an integer"},
        {{{.name = "window", .type = ATT_PARAM_INT, .data = doc}, ids}, 2, "it is a scalar"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {2, 39}}},
         2,
         "doc: size[1] is 39, expected 40"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {2, 41}}},
         2,
         "doc: size[1] is 41, expected 40"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {3, 40}}},
         2,
         "doc: size[0] is 3, expected 2"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .size = {2, 40}}}, 2, "doc is null"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {2, 40}, .stride = {40, -1}}},
         2,
         "stride[1] is -1"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = (char *)doc + 2, .size = {2, 40}}}, 2, "not aligned"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = o, .size = {2, 40}}}, 2, "o overlaps doc"},
        {{window, {.name = "doc", .type = ATT_PARAM_INT, .data = q, .size = {2, 40}}}, 2, "workspace overlaps doc"},
    };
    void *memory[4];
    const size_t bytes[] = {sizeof q, sizeof k, sizeof o, sizeof doc};
    const void *from[] = {q, k, o, doc};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(att_alloc(session, bytes[i], &memory[i]), ATT_OK);
        cr_assert_eq(att_copy_in(session, memory[i], from[i], bytes[i]), ATT_OK);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct att_param param[3];
        memcpy(param, cases[i].param, sizeof param);
        for (int j = 0; j < 3; j++) { /* this test's arrays stand for their copies on the device */
            ptrdiff_t offset = (const char *)param[j].data - (const char *)doc;
            if (param[j].data == (const void *)o)
                param[j].data = memory[2];
            else if (param[j].data && param[j].data != (const void *)q)
                param[j].data = (char *)memory[3] + offset;
        }
        struct att_args args = {.size = sizeof args,
                                .family = ATT_ATTENTION_FORWARD,
                                .attention = {.q = {memory[0], 128, 64, 8},
                                              .k = {memory[1], 640, 320, 8},
                                              .v = {memory[1], 640, 320, 8},
                                              .o = {memory[2], 128, 64, 8},
                                              .batch = 2,
                                              .heads = 2,
                                              .len_q = 8,
                                              .len_kv = 40,
                                              .params = param,
                                              .param_count = cases[i].count}};
        enum att_status status = att_workspace_size(kernel, &args, &args.workspace_size);
        if (status == ATT_OK) {
            cr_assert_eq(att_alloc(session, args.workspace_size + sizeof doc, &args.workspace), ATT_OK);
            for (int j = 0; j < 3; j++) /* q stands for what the kernel writes itself */
                if (param[j].data == (const void *)q)
                    param[j].data = args.workspace;
            status = att_launch(kernel, &args, NULL);
            att_free(session, args.workspace);
        }
        cr_expect_eq(status, cases[i].expected ? ATT_INVALID_ARGUMENT : ATT_OK, "case %zu: %s", i,
                     att_message(session));
        if (cases[i].expected)
            cr_expect(strstr(att_message(session), cases[i].expected), "expected %s, found %s", cases[i].expected,
                      att_message(session));
    }
    for (int i = 0; i < 4; i++)
        att_free(session, memory[i]);
    att_close(session);
}

Test(masks, a_launch_refuses_indices_that_may_leave_their_tensor) {
    att_session *session = open_test_device(ATT_HOST_CHECK);
    const struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 9, .len_kv = 9};
    static const struct {
        const char *problem;
        bool fits;
    } cases[] = {
        {ATTENTION "score=\"s + table[k]\" params=\"table: float[len_kv]\"", true},
        {ATTENTION "score=\"s + table[k + 1]\" params=\"table: float[len_kv]\"", false},
        {ATTENTION "score=\"s + table[min(k + 1, len_kv - 1)]\" params=\"table: float[len_kv]\"", true},
        {ATTENTION "mask=\"flag[q - 1]\" params=\"flag: bool[len_q]\"", false},
        {ATTENTION "mask=\"flag[max(q - 1, 0)]\" params=\"flag: bool[len_q]\"", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int refused = 0;
        bool right = runs_right(session, cases[i].problem, schedules[3], &shape, 1, false, &refused);
        cr_expect_eq(right, cases[i].fits, "%s", cases[i].problem);
        cr_expect_eq(refused, !cases[i].fits, "%s", cases[i].problem);
    }
    att_close(session);
}

/* --- launches without the oracle --------------------------------------------------------------------------------- */

enum { ROWS = 20, KEYS = 50, MOST = 64 }; /* of two heads */

/* Returns a multiple of 1/16, which all types hold. */
static float sixteenth(unsigned *seed) { return (float)((int)formula_random(seed, 33) - 16) / 16; }

static void *upload(att_session *session, const float *values, int count, bool in_bf16) {
    unsigned short halves[2 * KEYS * MOST];
    size_t bytes = (size_t)count * (in_bf16 ? sizeof *halves : sizeof *values);
    void *memory;
    for (int i = 0; in_bf16 && i < count; i++)
        element_encode(NPY_BF16, values[i], &halves[i]);
    cr_assert_eq(att_alloc(session, bytes, &memory), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory, in_bf16 ? (const void *)halves : values, bytes), ATT_OK);
    return memory;
}

struct numbers {
    float q[2 * ROWS * MOST], k[2 * KEYS * MOST], v[2 * KEYS * MOST], o[2 * ROWS * MOST], lse[2 * ROWS];
};

/* Launches two heads on packed tensors. Schedule SCHEDULES is that of the Hopper kernel. */
static enum att_status launch(att_session *session, const char *problem, int schedule, float scale,
                              const struct att_param *param, struct numbers *numbers) {
    char whole[256];
    bool on_hopper = schedule == SCHEDULES;
    int dim = on_hopper ? 64 : 8;
    unsigned seed = 7;
    snprintf(whole, sizeof whole, "%s%s", on_hopper ? HOPPER "dtype_out=fp32 " : ATTENTION, problem);
    att_kernel *kernel = find(session, whole, on_hopper ? hopper : schedules[schedule]);
    for (int i = 0; i < 2 * KEYS * dim; i++) {
        numbers->q[i % (2 * ROWS * dim)] = sixteenth(&seed);
        numbers->k[i] = sixteenth(&seed);
        numbers->v[i] = sixteenth(&seed);
    }
    void *memory[] = {
        upload(session, numbers->q, 2 * ROWS * dim, on_hopper), upload(session, numbers->k, 2 * KEYS * dim, on_hopper),
        upload(session, numbers->v, 2 * KEYS * dim, on_hopper), upload(session, numbers->o, 2 * ROWS * dim, false),
        upload(session, numbers->lse, 2 * ROWS, false)};
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = {memory[0], 0, ROWS * dim, dim},
                                          .k = {memory[1], 0, KEYS * dim, dim},
                                          .v = {memory[2], 0, KEYS * dim, dim},
                                          .o = {memory[3], 0, ROWS * dim, dim},
                                          .lse = memory[4],
                                          .batch = 1,
                                          .heads = 2,
                                          .len_q = ROWS,
                                          .len_kv = KEYS,
                                          .scale = scale,
                                          .params = param,
                                          .param_count = param != NULL}};
    enum att_status status = att_workspace_size(kernel, &args, &args.workspace_size);
    if (status == ATT_OK && args.workspace_size)
        cr_assert_eq(att_alloc(session, args.workspace_size, &args.workspace), ATT_OK);
    if (status == ATT_OK)
        status = att_launch(kernel, &args, NULL);
    att_copy_out(session, numbers->o, memory[3], sizeof *numbers->o * (size_t)(2 * ROWS * dim));
    att_copy_out(session, numbers->lse, memory[4], sizeof numbers->lse);
    for (int i = 0; i < 5; i++)
        att_free(session, memory[i]);
    if (args.workspace)
        att_free(session, args.workspace);
    return status;
}

/* One number stands for all. The host device refuses to read beyond it. */
Test(masks, a_tensor_may_repeat_a_number_in_all_its_dimensions) {
    static const struct {
        const char *problem;
        struct att_param param;
    } cases[] = {
        {"score='s + slopes[h] * (k - q)' params='slopes: float[heads]'", {.type = ATT_PARAM_FP32, .size = {2}}},
        {"score='s + bias[k] * (k - q)' params='bias: bf16[len_kv]'", {.type = ATT_PARAM_BF16, .size = {KEYS}}},
        {"score='s + bias[h, k] * (k - q)' params='bias: bf16[heads, len_kv]'",
         {.type = ATT_PARAM_BF16, .size = {2, KEYS}}},
        {"mask='k < ends[h]' params='ends: int[heads]'", {.type = ATT_PARAM_INT, .size = {2}}},
        {"mask='ids[q] < k and ids[k] < q' params='ids: int[len_kv]'", {.type = ATT_PARAM_INT, .size = {KEYS}}},
    };
    static struct numbers packed, repeated;
    static union {
        float real[2 * KEYS];
        int whole[2 * KEYS];
        unsigned short half[2 * KEYS];
    } values;
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct att_param many = cases[i].param, one;
        char name[16] = "";
        sscanf(strstr(cases[i].problem, "params='") + 8, "%15[a-z]", name);
        many.name = name;
        for (int n = 0; n < 2 * KEYS; n++)
            switch (many.type) {
            case ATT_PARAM_FP32: values.real[n] = -0.25f; break;
            case ATT_PARAM_INT: values.whole[n] = 9; break;
            default: element_encode(NPY_BF16, -0.25f, &values.half[n]);
            }
        const size_t element = many.type == ATT_PARAM_BF16 ? 2 : 4;
        void *memory[2];
        for (int n = 0; n < 2; n++) {
            size_t bytes = element * (n ? 1 : 2 * KEYS);
            cr_assert_eq(att_alloc(session, bytes, &memory[n]), ATT_OK);
            cr_assert_eq(att_copy_in(session, memory[n], &values, bytes), ATT_OK);
        }
        one = many;
        many.data = memory[0];
        one.data = memory[1];
        one.stride[0] = ATT_REPEAT;
        one.stride[1] = ATT_REPEAT;
        for (int schedule = 2; schedule <= SCHEDULES; schedule += 1 + schedule % 2) { /* flash, flash_tiled, Hopper's */
            cr_assert_eq(launch(session, cases[i].problem, schedule, 0, &many, &packed), ATT_OK, "%s",
                         att_message(session));
            cr_assert_eq(launch(session, cases[i].problem, schedule, 0, &one, &repeated), ATT_OK, "%s",
                         att_message(session));
            for (int n = 0; n < 2 * ROWS; n++)
                cr_expect(packed.lse[n] == repeated.lse[n] || fabsf(packed.lse[n] - repeated.lse[n]) < 1e-5f,
                          "%s, schedule %d: lse[%d] is %g, expected %g", cases[i].problem, schedule, n,
                          (double)repeated.lse[n], (double)packed.lse[n]);
        }
        att_free(session, memory[0]);
        att_free(session, memory[1]);
    }
    att_close(session);
}

/* Rows with gaps between them begin at multiples of 16 bytes and are copied ahead, except for two of their numbers.
   Packed rows are not. */
Test(masks, rows_of_a_bias_may_have_room_between_them) {
    enum { ROOM = 56, LINES = 2 * KEYS };
    static unsigned short packed[LINES * KEYS], roomy[LINES * ROOM];
    static struct numbers expected, found;
    struct att_param param = {.name = "bias", .type = ATT_PARAM_BF16, .size = {2, KEYS, KEYS}};
    const char *problem = "score='s + bias[h, max(q, 0), k]' params='bias: bf16[heads, len_kv, len_kv]'";
    att_session *session = open_test_device(ATT_HOST_CHECK);
    unsigned seed = 11;
    void *memory[2];
    for (int i = 0; i < LINES * ROOM; i++)
        element_encode(NPY_BF16, i % ROOM < KEYS ? sixteenth(&seed) : NAN, &roomy[i]);
    for (int i = 0; i < LINES * KEYS; i++)
        packed[i] = roomy[i / KEYS * ROOM + i % KEYS];
    cr_assert_eq(att_alloc(session, sizeof packed, &memory[0]), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory[0], packed, sizeof packed), ATT_OK);
    cr_assert_eq(att_alloc(session, sizeof roomy, &memory[1]), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory[1], roomy, sizeof roomy), ATT_OK);
    param.data = memory[0];
    cr_assert_eq(launch(session, problem, SCHEDULES, 0, &param, &expected), ATT_OK, "%s", att_message(session));
    param.data = memory[1];
    param.stride[0] = KEYS * ROOM;
    param.stride[1] = ROOM;
    param.stride[2] = 1;
    cr_assert_eq(launch(session, problem, SCHEDULES, 0, &param, &found), ATT_OK, "%s", att_message(session));
    for (int i = 0; i < 2 * ROWS * 64; i++)
        cr_assert_eq(found.o[i], expected.o[i], "o[%d] is %g, expected %g", i, (double)found.o[i],
                     (double)expected.o[i]);
    for (int i = 0; i < 2 * ROWS; i++)
        cr_expect_eq(found.lse[i], expected.lse[i], "lse[%d] is %g, expected %g", i, (double)found.lse[i],
                     (double)expected.lse[i]);
    cr_expect(fabsf(expected.lse[0]) > 0);
    att_free(session, memory[0]);
    att_free(session, memory[1]);
    att_close(session);
}

/* O is the mean of V over the visible keys, LSE the logarithm of their number. */
Test(masks, a_scale_of_zero_weighs_all_keys_alike) {
    static struct numbers numbers;
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (int schedule = 0; schedule < SCHEDULES; schedule++)
        for (int custom = 0; custom < 2; custom++) {
            const char *problem = custom ? "mask='k <= q and k % 3 != 1'" : "mask=causal";
            cr_assert_eq(launch(session, problem, schedule, ATT_SCALE_ZERO, NULL, &numbers), ATT_OK, "%s",
                         att_message(session));
            for (int row = 0; row < 2 * ROWS; row++) {
                int q = row % ROWS + KEYS - ROWS, seen = 0;
                double sum = 0;
                for (int k = 0; k <= q; k++)
                    if (!custom || k % 3 != 1) {
                        sum += (double)numbers.v[(row / ROWS * KEYS + k) * 8];
                        seen++;
                    }
                cr_expect_float_eq((double)numbers.o[row * 8], sum / seen, 1e-5, "%s, %s, row %d", problem,
                                   schedules[schedule], row);
                cr_expect_float_eq((double)numbers.lse[row], log(seen), 1e-5, "%s, %s, row %d", problem,
                                   schedules[schedule], row);
            }
            cr_assert_eq(launch(session, problem, schedule, 0, NULL, &numbers), ATT_OK);
            cr_expect(fabs((double)numbers.lse[0] - log(KEYS - ROWS + 1)) > 1e-3, "0 is not the default");
        }
    cr_assert_eq(launch(session, "mask=causal", SCHEDULES, ATT_SCALE_ZERO, NULL, &numbers), ATT_OK, "%s",
                 att_message(session));
    for (int row = 0; row < 2 * ROWS; row++)
        cr_expect_float_eq((double)numbers.lse[row], log(row % ROWS + KEYS - ROWS + 1), 1e-4, "Hopper's, row %d", row);
    att_close(session);
}

static bool has_score_of_zero(const struct numbers *numbers, int row, int dim) {
    for (int key = 0; key < KEYS; key++) {
        float s = 0; /* exact */
        for (int d = 0; d < dim; d++)
            s += numbers->q[row * dim + d] * numbers->k[(row / ROWS * KEYS + key) * dim + d];
        if (s == 0)
            return true;
    }
    return false;
}

/* A cap that is 0 at launch divides as in fp32: the score is 0 * tanh(s * inf), NaN for s = 0 and 0 for any other s. */
Test(masks, a_softcap_of_zero_is_refused_as_text_and_divides_by_zero_as_a_parameter) {
    static struct numbers numbers, plain;
    att_session *session = open_test_device(ATT_HOST_CHECK);
    att_kernel *kernel;
    cr_expect_eq(att_find(session, ATTENTION "score='softcap(0)'", NULL, &kernel), ATT_INVALID_TEXT);
    cr_expect(strstr(att_message(session), "division by 0"), "%s", att_message(session));
    const struct att_param cap = {.name = "cap", .type = ATT_PARAM_FP32, .number = 0};
    for (int schedule = 3; schedule <= SCHEDULES; schedule += 2) { /* flash_tiled, Hopper's */
        cr_assert_eq(launch(session, "score='softcap(cap)' params='cap: float'", schedule, 0, &cap, &numbers), ATT_OK,
                     "%s", att_message(session));
        for (int row = 0; row < 2 * ROWS; row++) {
            bool nan = has_score_of_zero(&numbers, row, schedule == SCHEDULES ? 64 : 8);
            cr_expect(nan ? isnan(numbers.lse[row]) : fabs((double)numbers.lse[row] - log(KEYS)) < 1e-5,
                      "schedule %d, row %d: %g", schedule, row, (double)numbers.lse[row]);
        }
        launch(session, "score='softcap(cap) if cap > 0 else s' params='cap: float'", schedule, 0, &cap, &numbers);
        launch(session, "", schedule, 0, NULL, &plain);
        for (int row = 0; row < 2 * ROWS; row++)
            cr_expect_float_eq((double)numbers.lse[row], (double)plain.lse[row], 1e-5, "schedule %d, row %d", schedule,
                               row);
    }
    att_close(session);
}

/* --- which tiles are loaded -------------------------------------------------------------------------------------- */

enum { HEADS = 2, LEN_Q = 150, LEN_KV = 210 };

/* How a kernel goes over a Q tile. */
struct tiling {
    int64_t m, n, row_bytes;
    bool copied; /* by TMA: tiles begin at multiples of n, and one is loaded even if nothing is seen of it */
};
static const struct tiling small = {32, 16, 8 * 4, false}, asynchronous = {64, 32, 64 * 2, true};

/* True if some query from row0 on sees some key from key0 on, within one tile. */
static bool tile_is_needed(const struct oracle_attention *p, const struct tiling *tile, int64_t head, int64_t row0,
                           int64_t key0) {
    for (int64_t row = row0; row < row0 + tile->m && row < p->len_q; row++)
        for (int64_t key = key0; key < key0 + tile->n && key < p->len_kv; key++)
            if (oracle_sees(p, 0, head, row, key))
                return true;
    return false;
}

/* Returns the bytes of Q, K and V that flash_tiled, q_outer, reads when it loads exactly the needed tiles, the first of
   which begins at the first needed key. */
static int64_t bytes_of_needed_tiles(const struct oracle_attention *p, const struct tiling *tile) {
    int64_t bytes = 0;
    for (int64_t head = 0; head < p->heads; head++)
        for (int64_t row0 = 0; row0 < p->len_q; row0 += tile->m) {
            int64_t first = 0, rows = p->len_q - row0 < tile->m ? p->len_q - row0 : tile->m;
            bool any = false;
            for (; first < p->len_kv; first++) {
                for (int64_t row = row0; row < row0 + rows && !any; row++)
                    any = oracle_sees(p, 0, head, row, first);
                if (any)
                    break;
            }
            bytes += any || tile->copied ? rows * tile->row_bytes : 0;
            if (!any && tile->copied)
                bytes += (p->len_kv < tile->n ? p->len_kv : tile->n) * 2 * tile->row_bytes;
            for (int64_t key0 = tile->copied ? first / tile->n * tile->n : first; key0 < p->len_kv; key0 += tile->n)
                if (tile_is_needed(p, tile, head, row0, key0))
                    bytes += (p->len_kv - key0 < tile->n ? p->len_kv - key0 : tile->n) * 2 * tile->row_bytes;
        }
    return bytes;
}

struct loaded {
    int64_t needed, read;
};

static struct loaded count(att_session *session, const char *problem, const char *schedule, const struct tiling *tile) {
    static const struct shape shape = {.batch = 1, .heads = HEADS, .kv_heads = HEADS, .len_q = LEN_Q, .len_kv = LEN_KV};
    att_kernel *kernel = find(session, problem, schedule);
    struct workload workload = make(kernel, &shape, 0);
    struct check_options options = {.shown = 3};
    struct check_result result;
    struct oracle_attention p = {.batch = 1,
                                 .heads = HEADS,
                                 .kv_heads = HEADS,
                                 .len_q = LEN_Q,
                                 .len_kv = LEN_KV,
                                 .mask = workload.params->formulas.mask,
                                 .env = &workload.params->env};
    cr_expect(check_run(session, kernel, &workload, &options, &result), "%s\n%s", problem, text_string(&result.report));
    struct loaded loaded = {bytes_of_needed_tiles(&p, tile), (int64_t)result.counters.global_read};
    if (test_device_is_gpu()) /* a GPU counts nothing: only the numbers are checked there */
        loaded.read = loaded.needed;
    check_free(&result);
    workload_free(&workload);
    return loaded;
}

Test(masks, of_affine_masks_exactly_the_tiles_with_something_to_see_are_loaded) {
    static const char *const masks[] = {
        "k <= q and q - k < 40",
        "q - k <= 20 and k - q <= 30",
        "k < 33 and k <= q",
        "k >= 100",
        "k <= q and q - k < 40 and k >= 77",
        "q + k >= 300",
        "2 * k <= q",
        "k == q",
        "k < 5 and q > 100",
        "k <= q and h == 1",
        "k < 0",
        "q - k == 64 and k > 20",
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char problem[256];
        snprintf(problem, sizeof problem, ATTENTION "mask=\"%s\"", masks[i]);
        struct loaded loaded = count(session, problem, schedules[3], &small);
        cr_expect_eq(loaded.read, loaded.needed, "%s: %d bytes are read, %d are needed", masks[i], (int)loaded.read,
                     (int)loaded.needed);
        snprintf(problem, sizeof problem, HOPPER "mask=\"%s\"", masks[i]);
        loaded = count(session, problem, hopper, &asynchronous);
        cr_expect_eq(loaded.read, loaded.needed, "Hopper, %s: %d bytes are read, %d are needed", masks[i],
                     (int)loaded.read, (int)loaded.needed);
    }
    att_close(session);
}

/* No needed tile is left out (the numbers are checked), and few are loaded in vain. The mask's reads of its own tensors
   do not depend on head_dim, so the difference between two head dimensions gives the reads of Q, K and V. */
Test(masks, tiles_of_other_masks_are_sorted_on_the_fly) {
    static const struct {
        const char *problem;
        double most; /* times what is needed */
    } cases[] = {
        {"mask=\"q // 50 == k // 50\"", 1.1},
        {"mask=\"q // 50 == k // 50 and k <= q\"", 1.1},
        {"mask=\"k < 20 or q - k < 20 and k <= q\"", 1.2},
        {"mask=\"document(ids) and k <= q\" params=\"ids: int[batch, len_kv]\"", 2},
        {"mask=\"k < lengths[b] and k <= q\" params=\"lengths: int[batch]\"", 1.2},
        {"mask=\"on[q // 32, k // 16]\" params=\"on: bool[(len_kv + 31) // 32, (len_kv + 15) // 16]\"", 3},
    };
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[2][256];
        for (int j = 0; j < 2; j++)
            snprintf(problem[j], sizeof problem[j], "family=attention_forward dtype=fp32 head_dim=%d %s", 8 + 8 * j,
                     cases[i].problem);
        struct loaded loaded = count(session, problem[1], schedules[3], &small),
                      less = count(session, problem[0], schedules[3], &small);
        if (test_device_is_gpu())
            continue;
        loaded.read -= less.read;
        cr_expect_geq(loaded.read, loaded.needed, "%s", cases[i].problem);
        cr_expect_leq((double)loaded.read, cases[i].most * (double)loaded.needed,
                      "%s: %d bytes are read, %d are needed", cases[i].problem, (int)loaded.read, (int)loaded.needed);
    }
    att_close(session);
}
