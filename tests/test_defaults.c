/* Tables of defaults: which row answers, and what comes before and after it. Invalid tables:
   tests/cases/template/defaults.txt. */
#include "defaults.h"
#include "helper_template.h"
#include "template.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* --- the tables of the kernels for tensor cores ---------------------------------------------------------------------- */

#define WINDOW    "mask=\"k <= q and q - k < window\" params=\"window: int\""
#define DOCUMENTS "mask=\"causal and document(doc)\" "
#define SQUARE    "score=\"s * s\" "
#define BIAS      "score=\"s + bias[h, q, k]\" params=\"bias: fp16[heads, len_q, len_kv]\""

/* One problem for each row, in the order of the table. */
struct choice {
    const char *problem, *row;
    int block_m, block_n, stages; /* 0 = the table gives no stages */
};
static const struct choice async[] = {
    {"head_dim=64 mask=causal dropout=1", "d 64 with dropout", 192, 96, 3},
    {"head_dim=64 dropout=1 " WINDOW, "d 128 with dropout and a mask or a score", 128, 64, 2},
    {"head_dim=64 layout=ragged page_size=16 " DOCUMENTS "params=\"doc: int[batch, len_kv]\"",
     "d 64 with pages and a mask without a closed form", 192, 80, 3},
    {"head_dim=64 layout=ragged page_size=16 mask=causal splits=0",
     "d 64 with pages, and a mask of one's own or a mask and parts of keys", 192, 96, 3},
    {"head_dim=64 layout=ragged page_size=16 sinks=1", "d 64 with pages", 256, 64, 3},
    {"head_dim=64 mask=causal splits=0", "d 64 with a mask and parts of keys", 192, 96, 3},
    {"head_dim=64 mask=causal", "d 64", 256, 64, 3},
    {"head_dim=64 layout=ragged sinks=1", "d 64 with sinks and sequences", 192, 96, 3},
    {"head_dim=8 sinks=1", "d 64 with sinks", 192, 128, 3},
    {"head_dim=64 dtype_out=fp32", "d 64 with O in fp32", 192, 96, 3},
    {"head_dim=64 layout=ragged " DOCUMENTS "params=\"doc: int[batch, len_kv]\"",
     "d 64 with sequences and a mask that looks tensors up", 192, 80, 3},
    {"head_dim=64 " WINDOW, "d 64 with a mask of one's own", 192, 112, 3},
    {"head_dim=64 score=\"tanh(s) + slope[h] * (k - q)\" params=\"slope: float[heads]\"", "d 64 with tanh and more",
     192, 80, 3},
    {"head_dim=64 score=softcap(30)", "d 64 with a folded score", 192, 96, 3},
    {"head_dim=64 " BIAS, "d 64 with rows of a bias and no mask", 192, 128, 3},
    {"head_dim=64 mask=causal " BIAS, "d 64 with rows of a bias", 192, 96, 3},
    {"head_dim=64 " DOCUMENTS SQUARE "params=\"doc: int[batch, len_kv]\"",
     "d 64 with a score and a mask that look tensors up", 128, 96, 2},
    {"head_dim=72 mask=causal splits=0", "d 96 with a mask and parts of keys", 128, 128, 2},
    {"head_dim=64 head_dim_v=72 sinks=1", "d 96", 192, 96, 2},
    {"head_dim=72 " DOCUMENTS SQUARE "params=\"doc: int[batch, len_kv]\"",
     "d 128 with a score and a mask that look tensors up", 128, 80, 2},
    {"head_dim=128 " BIAS, "d 128 with rows of a bias", 128, 112, 2},
    {"head_dim=64 " SQUARE, "d 128 with a general score", 128, 96, 2},
    {"head_dim=128 sinks=1 " SQUARE, "d 128 with a general score and sinks", 128, 80, 2},
    {"head_dim=104 layout=ragged " WINDOW, "d 128 with sequences and a mask in closed form", 192, 48, 2},
    {"head_dim=104 " WINDOW, "d 128 with a mask in closed form", 192, 64, 2},
    {"head_dim=128 layout=ragged page_size=16", "d 128 with pages", 192, 64, 2},
    {"head_dim=128 layout=padded", "d 128 without a mask", 192, 80, 2},
    {"head_dim=128 mask=causal", "d 128", 128, 128, 2},
    {"head_dim=192 head_dim_v=128", "d 192 with values up to 128", 128, 96, 2},
    {"head_dim=136", "d 192", 128, 80, 2},
    {"head_dim=64 head_dim_v=256", "d 256", 128, 64, 2},
    {"head_dim=192 " SQUARE, "d 192 with a general score", 128, 48, 2},
    {"head_dim=256 " SQUARE, "d 256 with a general score", 128, 32, 2},
};
#define TF32 "dtype=fp32 precision=tf32x3 "
static const struct choice mma[] = {
    {TF32 "head_dim=64 mask=causal target=sm_80", "tf32 d 64", 128, 32, 2},
    {TF32 "head_dim=64 target=sm_86", "tf32 d 64 with a mask, a score, sinks or dropout, or in little shared memory",
     64, 32, 2},
    {TF32 "head_dim=128 mask=causal target=sm_90", "tf32 d 128 in much shared memory", 128, 32, 1},
    {TF32 "head_dim=128 target=sm_80", "tf32 d 128", 64, 32, 1},
    {TF32 "head_dim=256 target=sm_86", "tf32 d 256", 64, 16, 1},
    {"head_dim=64 target=sm_80 " BIAS, "d 64 with rows of a bias", 128, 64, 2},
    {"head_dim=64 target=sm_86 " BIAS,
     "d 64 with rows of a bias in little shared memory, or sequences and a mask without a closed form", 128, 32, 2},
    {"head_dim=128 mask=causal target=sm_80 " BIAS, "d 128 with rows of a bias", 128, 64, 1},
    {"head_dim=128 target=sm_120 " BIAS,
     "d 128 with rows of a bias in little shared memory, or another mask, or dropout", 64, 48, 1},
    {"head_dim=200 target=sm_80 " BIAS, "d 256 with rows of a bias", 64, 32, 1},
    {"head_dim=64 mask=causal target=sm_80", "d 64 plain in two stages", 128, 96, 2},
    {"head_dim=64 target=sm_86", "d 64 without a mask", 128, 128, 1},
    {"head_dim=64 mask=causal target=sm_86", "d 64 plain", 128, 128, 1},
    {"head_dim=64 target=sm_80 " WINDOW, "d 64 with a window", 128, 128, 1},
    {"head_dim=64 mask=\"k <= q or k < 9\" target=sm_80", "d 64 with a mask in closed form", 128, 96, 2},
    {"head_dim=64 score=\"s - k\" target=sm_80", "d 64 with a linear score", 128, 80, 2},
    {"head_dim=64 mask=\"document(doc)\" params=\"doc: int[batch, len_kv]\" target=sm_80",
     "d 64 with a mask or a linear score", 128, 64, 2},
    {"head_dim=64 mask=causal sinks=1 target=sm_80", "d 64", 128, 64, 2},
    {"head_dim=200 target=sm_80 " SQUARE, "d 256 with a general score", 64, 48, 1},
    {"head_dim=96 mask=causal target=sm_80", "d 96 plain", 128, 64, 2},
    {"head_dim=65 target=sm_120", "d 96 plain in little shared memory", 128, 64, 1},
    {"head_dim=128 mask=causal target=sm_86", "in little shared memory", 64, 64, 1},
    {"head_dim=128 mask=causal target=sm_90", "d 128 plain in much shared memory", 128, 64, 2},
    {"head_dim=128 mask=causal target=sm_80", "d 128 plain", 128, 48, 2},
    {"head_dim=128 target=sm_80 " WINDOW, "d 128 with a window or a linear score", 128, 64, 1},
    {"head_dim=128 mask=\"k <= q or k < 9\" target=sm_80", "d 128 with a mask in closed form", 128, 48, 2},
    {"head_dim=128 mask=causal layout=ragged target=sm_80", "d 128", 128, 48, 2},
    {"head_dim=64 score=softcap(30) target=sm_80", "d 128 with a mask, a score, sinks or dropout", 64, 64, 2},
    {"head_dim=192 mask=causal target=sm_80", "d 192 causal", 64, 64, 1},
    {"head_dim=129 target=sm_90", "d 256", 64, 64, 1},
};

static const struct choice tiled[] = {
    {"head_dim=8 head_dim_v=80 target=sm_80", "d 80, K and V in separate buffers", 128, 64, 0},
    {"head_dim=128 target=sm_80", "d 128, K and V in separate buffers", 128, 64, 0},
    {"head_dim=129 target=sm_80", "d 256, K and V in separate buffers", 64, 32, 0},
    {"head_dim=64 mask=causal", "d 64", 64, 64, 0},
    {"head_dim=64 head_dim_v=72", "d 128", 64, 32, 0},
    {"head_dim=224", "d 224", 32, 32, 0},
    {"head_dim=225", "d 256", 32, 16, 0},
};
static const struct choice tiled_kv[] = {
    {"head_dim=64", "d 64", 32, 64, 0},
    {"head_dim=64 head_dim_v=72", "d 128", 16, 32, 0},
    {"head_dim=256", "d 256", 16, 16, 0},
};

#define BACKWARD "family=attention_backward "
static const struct choice backward_tiled[] = {
    {BACKWARD "head_dim=64 target=sm_80", "d 64", 64, 64, 0},
    {BACKWARD "head_dim=64 head_dim_v=72 target=sm_80", "d 128", 32, 32, 0},
    {BACKWARD "head_dim=136 target=sm_80", "d 256", 16, 16, 0},
    {BACKWARD "head_dim=64", "d 64 on any GPU", 32, 64, 0},
    {BACKWARD "head_dim=72 head_dim_v=64", "d 128 on any GPU", 16, 32, 0},
    {BACKWARD "head_dim=256", "d 256 on any GPU", 8, 16, 0},
};
static const struct choice backward_mma[] = {
    {BACKWARD "head_dim=64 layout=ragged target=sm_80",
     "one kernel, d 64 with a mask of one's own, sequences or dropout", 64, 64, 2},
    {BACKWARD "head_dim=32 head_dim_v=64 target=sm_80", "one kernel, d 64", 128, 128, 2},
    {BACKWARD "head_dim=128 layout=ragged target=sm_80", "one kernel, d 128", 64, 64, 1},
    {BACKWARD "head_dim=192 head_dim_v=128 target=sm_90", "one kernel, d 192", 64, 96, 2},
    {BACKWARD "head_dim=256 target=sm_90", "one kernel, d 256", 64, 64, 2},
    {BACKWARD "head_dim=64 target=sm_80 " SQUARE, "a score or dropout", 64, 64, 0},
    {BACKWARD "head_dim=72 layout=ragged target=sm_80", "sequences with long rows or a mask of one's own", 64, 64, 0},
    {BACKWARD "head_dim=64 layout=padded deterministic=1 target=sm_80", "sequences", 128, 64, 0},
    {BACKWARD "head_dim=64 mask=causal target=sm_86", "d 64", 128, 128, 0},
    {BACKWARD "head_dim=64 head_dim_v=65 target=sm_80", "d 128", 128, 64, 0},
    {BACKWARD "head_dim=129 target=sm_80", "d 256", 64, 64, 0},
};

static struct knobs knobs_of(const char *problem, int algorithm, int loop_order) {
    char text[256];
    snprintf(text, sizeof text, "%s%s%s", strstr(problem, "family=") ? "" : "family=attention_forward ",
             strstr(problem, "dtype=") ? "" : "dtype=bf16 ", problem);
    const struct input input = {"<test>", text, strlen(text)};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    bool good =
        knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE, &knobs, &diag);
    cr_assert(good, "%s", text_string(&diag.text));
    if (knobs.target == target_any && algorithm != algorithm_flash_tiled)
        knobs.target = target_sm_90a;
    knobs.algorithm = algorithm;
    knobs.loop_order = loop_order;
    return knobs;
}

static void check_rows(int algorithm, int loop_order, const struct choice *choices, int count) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    char reason[VARIANT_REASON];
    const struct template_row *which;
    const struct knobs any = knobs_of(choices[count - 1].problem, algorithm, loop_order);
    const struct template *template = template_find(set, &any, &which, reason, sizeof reason);
    cr_assert(template && template->defaults);
    cr_assert_eq(template->defaults->rows, count);
    for (int i = 0; i < count; i++) {
        const struct knobs knobs = knobs_of(choices[i].problem, algorithm, loop_order);
        struct variant variant;
        cr_assert(variant_complete(set, &knobs, true, &variant), "%s: %s", choices[i].problem, variant.reason);
        const struct default_row *row = variant_default_row(set, &variant);
        cr_expect_eq(row, &template->defaults->row[i], "%s", choices[i].problem);
        cr_expect_str_eq(row->name, choices[i].row);
        cr_expect_eq(variant.knobs.block_m, choices[i].block_m, "%s", choices[i].problem);
        cr_expect_eq(variant.knobs.block_n, choices[i].block_n, "%s", choices[i].problem);
        if (choices[i].stages > 0)
            cr_expect_eq(variant.knobs.stages, choices[i].stages, "%s", choices[i].problem);
    }
    template_set_close(set);
}

Test(defaults, every_row_of_flash_async_answers_a_problem) {
    check_rows(algorithm_flash_async, loop_order_q_outer, async, sizeof async / sizeof *async);
}
Test(defaults, every_row_of_flash_mma_answers_a_problem) {
    check_rows(algorithm_flash_mma, loop_order_q_outer, mma, sizeof mma / sizeof *mma);
}
Test(defaults, every_row_of_flash_tiled_answers_a_problem) {
    check_rows(algorithm_flash_tiled, loop_order_q_outer, tiled, sizeof tiled / sizeof *tiled);
    check_rows(algorithm_flash_tiled, loop_order_kv_outer, tiled_kv, sizeof tiled_kv / sizeof *tiled_kv);
}

Test(defaults, every_row_of_the_backward_pass_answers_a_problem) {
    check_rows(algorithm_flash_tiled, loop_order_q_outer, backward_tiled,
               sizeof backward_tiled / sizeof *backward_tiled);
    check_rows(algorithm_flash_mma, loop_order_q_outer, backward_mma, sizeof backward_mma / sizeof *backward_mma);
}

/* --- tables in general --------------------------------------------------------------------------------------------- */

static struct template_set *open_set(const char *source) {
    static struct template_text text;
    struct diag diag = {0};
    text = (struct template_text){source, strlen(source)};
    struct template_set *set = template_text_open(&text, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

Test(defaults, a_row_gives_what_nobody_gave_before_it) {
    struct template_set *set = open_set("//$ default threads = 64\n"
                                        "//$ defaults \"d.yaml\"\n"
                                        "//$ default stages = block_m / 8\n"
                                        "//$ launch f grid len_q block threads shared 0\n"
                                        "@ d.yaml\n"
                                        "defaults:\n"
                                        "  - name: small\n"
                                        "    when: head_dim <= 64\n"
                                        "    schedule: {block_m: 16, block_n: 8}\n"
                                        "  - {name: else, schedule: {block_m: 32, block_n: 16}}\n");
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.head_dim = 64;
    knobs.block_n = 4;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.knobs.threads, 64, "no knob of the table");
    cr_expect_eq(variant.knobs.block_m, 16);
    cr_expect_eq(variant.knobs.block_n, 4, "given");
    cr_expect_eq(variant.knobs.stages, 2, "what follows may read what a row gives");
    cr_expect_eq(variant_default_row(set, &variant)->place.line, 2);
    cr_expect_null(variant_default_row(set, &variant)->because);
    knobs.head_dim = 72;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.knobs.block_m, 32);
    cr_expect_str_eq(variant_default_row(set, &variant)->name, "else");
    template_set_close(set);
}

Test(defaults, a_template_uses_the_knobs_of_its_table) {
    struct template_set *set = open_set("//$ defaults \"d.yaml\"\n"
                                        "//$ launch f grid len_q block 32 shared 0\n"
                                        "@ d.yaml\n"
                                        "defaults:\n"
                                        "  - {name: a, when: head_dim_v == 8 and sinks == 1, schedule: {block_m: 16}}\n"
                                        "  - {name: b, schedule: {block_m: 32}}\n");
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.head_dim_v = 8;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect(knob_in(variant.used, KNOB_head_dim_v) && knob_in(variant.used, KNOB_sinks) &&
              knob_in(variant.used, KNOB_block_m));
    cr_expect_not(knob_in(variant.used, KNOB_block_n));
    template_set_close(set);
}

Test(defaults, a_condition_without_a_value_is_the_reason) {
    struct template_set *set = open_set("//$ defaults \"d.yaml\"\n"
                                        "//$ launch f grid len_q block 32 shared 0\n"
                                        "@ d.yaml\n"
                                        "defaults:\n"
                                        "  - {name: a, when: 64 / (head_dim - 8) == 1, schedule: {block_m: 16}}\n"
                                        "  - {name: b, schedule: {block_m: 32}}\n");
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    knobs.head_dim = 8;
    cr_expect_not(variant_complete(set, &knobs, true, &variant));
    cr_expect(strstr(variant.reason, "(d.yaml:2)"), "%s", variant.reason);
    template_set_close(set);
}

Test(defaults, a_template_without_a_table_has_no_row) {
    struct template_set *set = open_set("//$ launch f grid len_q block 32 shared 0\n");
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_null(variant_default_row(set, &variant));
    template_set_close(set);
}
