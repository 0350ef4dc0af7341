#include "tuned.h"

#include <criterion/criterion.h>
#include <string.h>

#define HEAD    "device: NVIDIA H200\n"
#define PROBLEM HEAD "best:\n  - problem: {family: attention_forward, dtype: bf16, head_dim: 128}\n    shapes:\n"

static const char example[] = "# a comment\n"
                              "device: NVIDIA H200\n"
                              "measured: attile 0.1.0, NVRTC 13.0\n"
                              "best:\n"
                              "  - problem: {family: attention_forward, dtype: bf16, head_dim: 128, mask: causal}\n"
                              "    shapes:\n"
                              "      - shape: {batch: 4, heads: 16, kv_heads: 4, len_q: 4096, len_kv: 4096}\n"
                              "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128}\n"
                              "        microseconds: 581.25\n"
                              "        margin: 1.031\n"
                              "      - shape: {batch: 32, heads: 16, len_q: 512, len_kv: 512}\n"
                              "        schedule: {algorithm: flash_tiled}\n"
                              "  - problem: {family: attention_forward, dtype: bf16, head_dim: 128}\n"
                              "    shapes:\n"
                              "      - shape: {len_q: 64, len_kv: 64}\n"
                              "        schedule: {algorithm: flash}\n"
                              "deny:\n"
                              "  - variant: {family: attention_forward, algorithm: flash_async, head_dim: 8}\n"
                              "    version: 0.1.0\n"
                              "    because: it \"hangs\"\n"
                              "  - variant: {family: merge}\n"
                              "    because: slow\n";

static const struct tuned_filter ALL = {0};

static struct tuned *read_table(const char *text) {
    struct diag diag = {0};
    struct tuned *tuned = tuned_read("t.yaml", text, strlen(text), &diag);
    cr_assert(tuned, "%s", text_string(&diag.text));
    diag_free(&diag);
    return tuned;
}

static struct knobs problem_of(const char *text) {
    struct input input = {"<test>", text, strlen(text)};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    bool good = knobs_parse(&input, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, &diag);
    cr_assert(good, "%s", text_string(&diag.text));
    return tuned_problem(&knobs);
}

Test(tuned, reads_rows_and_denials_with_their_places) {
    struct tuned *tuned = read_table(example);
    cr_expect_str_eq(tuned->name, "t.yaml");
    cr_expect_str_eq(tuned->device, "NVIDIA H200");
    cr_expect_str_eq(tuned->measured, "attile 0.1.0, NVRTC 13.0");
    cr_assert_eq(tuned->rows, 3);
    const struct tuned_row *row = tuned->row;
    cr_expect_eq(row->problem.mask, mask_causal);
    cr_expect_eq(row->problem.head_dim_v, 128);
    cr_expect_eq(row->problem.dtype_out, dtype_out_bf16);
    cr_expect_eq(row->schedule.block_m, 128);
    cr_expect_eq(row->schedule.target, target_sm_90a);
    cr_expect_eq(row->schedule.block_n, AUTO);
    cr_expect_eq(row->shape.kv_heads, 4);
    cr_expect_eq(row[1].shape.kv_heads, 16);
    cr_expect_float_eq(row->microseconds, 581.25, 1e-9);
    cr_expect_float_eq(row->margin, 1.031, 1e-9);
    cr_expect_eq(row->line, 7);
    cr_assert_eq(tuned->denials, 2);
    cr_expect_str_eq(tuned->denial[0].because, "it \"hangs\"");
    cr_expect_null(tuned->denial[1].version);
    tuned_free(tuned);
}

Test(tuned, writes_what_it_reads) {
    struct tuned *tuned = read_table(example);
    struct text once = {0}, twice = {0};
    tuned_write(tuned, &once);
    struct tuned *again = read_table(text_string(&once));
    tuned_write(again, &twice);
    cr_expect_str_eq(text_string(&once), text_string(&twice));
    cr_assert_eq(again->rows, tuned->rows);
    for (int i = 0; i < tuned->rows; i++) {
        cr_expect_arr_eq(&again->row[i].problem, &tuned->row[i].problem, sizeof(struct knobs));
        cr_expect_arr_eq(&again->row[i].schedule, &tuned->row[i].schedule, sizeof(struct knobs));
        cr_expect_arr_eq(&again->row[i].shape, &tuned->row[i].shape, sizeof(struct shape));
        cr_expect_float_eq(again->row[i].microseconds, tuned->row[i].microseconds, 1e-9);
    }
    cr_expect_str_eq(again->denial[0].because, "it \"hangs\"");
    text_free(&once);
    text_free(&twice);
    tuned_free(again);
    tuned_free(tuned);
}

Test(tuned, a_table_without_rows_is_one) {
    struct tuned *made = tuned_new("x", "NVIDIA H200", "");
    struct text text = {0};
    tuned_write(made, &text);
    struct tuned *tuned = read_table(text_string(&text));
    cr_expect_eq(tuned->rows, 0);
    cr_expect(tuned_is_for(tuned, "NVIDIA H200"));
    cr_expect_not(tuned_is_for(tuned, "NVIDIA H100"));
    /* without a row to point at: only clang's sanitizer finds additions to a null pointer, even of 0 */
    struct knobs problem = problem_of("family=attention_forward dtype=bf16 head_dim=128");
    cr_expect_null(
        tuned_nearest(tuned, &problem, &(struct shape){.batch = 1, .heads = 1, .len_q = 8, .len_kv = 8}, ALL));
    text_free(&text);
    tuned_free(tuned);
    tuned_free(made);
}

Test(tuned, an_excerpt_says_the_same_of_its_problem_in_the_same_lines) {
    struct tuned *tuned = read_table(example);
    struct text whole = {0};
    tuned_write(tuned, &whole);
    tuned_free(tuned);
    tuned = read_table(text_string(&whole));
    static const struct {
        const char *problem;
        int first, rows; /* of the whole table */
    } cases[] = {{"family=attention_forward dtype=bf16 head_dim=128 mask=causal", 0, 2},
                 {"family=attention_forward dtype=bf16 head_dim=128", 2, 1},
                 {"family=attention_forward dtype=bf16 head_dim=12", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text excerpt = {0};
        struct knobs problem = problem_of(cases[i].problem);
        tuned_excerpt(text_string(&whole), whole.size, &problem, &excerpt);
        struct tuned *part = read_table(text_string(&excerpt));
        cr_expect_str_eq(part->device, tuned->device);
        cr_expect_eq(part->denials, tuned->denials);
        cr_assert_eq(part->rows, cases[i].rows, "%s", text_string(&excerpt));
        for (int row = 0; row < part->rows; row++)
            cr_expect_arr_eq(&part->row[row], &tuned->row[cases[i].first + row], sizeof *part->row);
        tuned_free(part);
        text_free(&excerpt);
    }
    tuned_free(tuned);
    text_free(&whole);
}

static bool is_for(const struct tuned_row *row, const void *target) {
    return row->schedule.target == *(const int *)target;
}

Test(tuned, put_replaces_a_row_of_the_same_problem_shape_and_target) {
    struct tuned *tuned = read_table(example);
    struct tuned_row row = tuned->row[0];
    row.schedule.block_m = 64;
    cr_assert(tuned_put(tuned, &row));
    cr_expect_eq(tuned->rows, 3);
    cr_expect_eq(tuned->row[0].schedule.block_m, 64);
    row.schedule.target = target_sm_90;
    row.microseconds = 900;
    cr_assert(tuned_put(tuned, &row));
    cr_assert_eq(tuned->rows, 4, "a row for another target");
    cr_expect_eq(tuned_nearest(tuned, &row.problem, &row.shape, ALL)->schedule.target, target_sm_90a, "the faster one");
    const int wanted = target_sm_90;
    cr_expect_eq(tuned_nearest(tuned, &row.problem, &row.shape, (struct tuned_filter){is_for, &wanted}),
                 &tuned->row[2]);
    row.microseconds = 500;
    cr_assert(tuned_put(tuned, &row));
    cr_assert_eq(tuned->rows, 4);
    cr_expect_eq(tuned_nearest(tuned, &row.problem, &row.shape, ALL)->schedule.target, target_sm_90);
    row.shape.len_q = 77;
    cr_assert(tuned_put(tuned, &row));
    cr_assert_eq(tuned->rows, 5);
    cr_expect_eq(tuned->row[3].shape.len_q, 77, "rows of one problem stand together");
    tuned_free(tuned);
}

Test(tuned, nearest_counts_doublings_of_lengths_and_of_batch_times_heads) {
    struct tuned *tuned = read_table(example);
    struct knobs causal = problem_of("family=attention_forward dtype=bf16 head_dim=128 mask=causal");
    static const struct {
        struct shape shape;
        int row;
    } cases[] = {
        {{.batch = 4, .heads = 16, .len_q = 4096, .len_kv = 4096}, 0},
        {{.batch = 1, .heads = 64, .len_q = 100000, .len_kv = 8192}, 0},
        {{.batch = 64, .heads = 8, .len_q = 600, .len_kv = 300}, 1},
        {{.batch = 1, .heads = 1, .len_q = 0, .len_kv = 0}, 1},
        {{.batch = 1, .heads = 1, .len_q = 1, .len_kv = 1}, 1},         /* there is no row for few queries */
        {{.batch = 8, .heads = 16, .len_q = 2048, .len_kv = 2048}, 0},  /* 1 + 1 + 1 against 2 + 2 + 2 */
        {{.batch = 16, .heads = 16, .len_q = 1024, .len_kv = 1024}, 1}, /* 2 + 2 + 2 against 1 + 1 + 1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(tuned_nearest(tuned, &causal, &cases[i].shape, ALL), &tuned->row[cases[i].row], "case %zu", i);
    tuned_free(tuned);
}

Test(tuned, rows_for_few_queries_and_for_many_say_nothing_of_each_other) {
    struct tuned *tuned = read_table("device: NVIDIA H200\n"
                                     "best:\n"
                                     "  - problem: {family: attention_forward, dtype: bf16, head_dim: 128}\n"
                                     "    shapes:\n"
                                     "      - shape: {batch: 64, heads: 64, kv_heads: 8, len_q: 1, len_kv: 8192}\n"
                                     "        schedule: {target: sm_90, algorithm: decode, block_m: 8}\n"
                                     "      - shape: {batch: 8, heads: 64, kv_heads: 8, len_q: 4, len_kv: 8192}\n"
                                     "        schedule: {target: sm_90, algorithm: decode, block_m: 32}\n"
                                     "      - shape: {batch: 64, heads: 64, kv_heads: 8, len_q: 5, len_kv: 8192}\n"
                                     "        schedule: {target: sm_90a, algorithm: flash_async, block_m: 128}\n");
    struct knobs problem = problem_of("family=attention_forward dtype=bf16 head_dim=128");
    static const struct {
        struct shape shape;
        int row;
    } cases[] = {
        {{.batch = 64, .heads = 64, .kv_heads = 8, .len_q = 4, .len_kv = 8192}, 0}, /* 2 + 0 + 0 against 0 + 0 + 3 */
        {{.batch = 64, .heads = 64, .kv_heads = 8, .len_q = 2, .len_kv = 65536}, 0},
        {{.batch = 64, .heads = 8, .kv_heads = 8, .len_q = 8, .len_kv = 8192}, 0}, /* as many rows, in another way */
        {{.batch = 1, .heads = 32, .kv_heads = 1, .len_q = 1, .len_kv = 100}, 1},
        {{.batch = 1, .heads = 33, .kv_heads = 1, .len_q = 1, .len_kv = 100}, 2},
        {{.batch = 8, .heads = 64, .kv_heads = 8, .len_q = 5, .len_kv = 8192}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(tuned_nearest(tuned, &problem, &cases[i].shape, ALL), &tuned->row[cases[i].row], "case %zu", i);
    cr_expect_eq(tuned_few_rows(&cases[0].shape), 32);
    cr_expect_eq(tuned_few_rows(&cases[5].shape), TUNED_FEW_ROWS + 1);
    cr_expect_eq(tuned_few_rows(&(struct shape){.heads = 8, .kv_heads = 1}), 0);
    tuned_free(tuned);
}

Test(tuned, nearest_never_answers_another_problem) {
    struct tuned *tuned = read_table(example);
    struct shape shape = {.batch = 4, .heads = 16, .len_q = 4096, .len_kv = 4096};
    struct knobs none = problem_of("family=attention_forward dtype=bf16 head_dim=128 head_dim_v=128");
    cr_expect_eq(tuned_nearest(tuned, &none, &shape, ALL), &tuned->row[2]);
    static const char *const others[] = {
        "family=attention_forward dtype=fp16 head_dim=128", "family=attention_forward dtype=bf16 head_dim=64",
        "family=attention_forward dtype=bf16 head_dim=128 head_dim_v=64",
        "family=attention_forward dtype=bf16 head_dim=128 dtype_out=fp32", "family=merge dtype=bf16"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct knobs problem = problem_of(others[i]);
        cr_expect_null(tuned_nearest(tuned, &problem, &shape, ALL), "%s", others[i]);
    }
    tuned_free(tuned);
}

/* Knobs of a problem that borrows, and those of the problem that it borrows from. */
static const char *const loans[][2] = {
    {"dtype=bf16 head_dim=128 mask=causal", "dtype=bf16 head_dim=128 mask=causal"},
    {"dtype=fp16 head_dim=128 mask=causal", "dtype=bf16 head_dim=128 mask=causal"},
    {"dtype=fp16 head_dim=128 dtype_out=fp32", "dtype=bf16 head_dim=128"},
    {"dtype=bf16 head_dim=72 mask=causal", "dtype=bf16 head_dim=128 mask=causal"},
    {"dtype=bf16 head_dim=72 head_dim_v=136", NULL},
    {"dtype=bf16 head_dim=192 mask=causal", NULL},
    {"dtype=fp32 head_dim=128", NULL},
    {"dtype=bf16 head_dim=64 sinks=1", NULL},
    {"dtype=bf16 head_dim=64 mask=\"k < q\"", NULL},
};

Test(tuned, schedules_are_borrowed_of_the_least_problem_that_is_as_large) {
    struct tuned *tuned = read_table(example);
    struct text whole = {0}, text = {0};
    tuned_write(tuned, &whole);
    for (size_t i = 0; i < sizeof loans / sizeof *loans; i++)
        for (int k = 0; k < 2; k++) {
            struct knobs knobs[2], lender = knobs_filled(AUTO);
            for (int j = 0; j < 2; j++) {
                text_print(&text, "family=attention_forward %s", loans[i][j] ? loans[i][j] : "");
                knobs[j] = problem_of(text_string(&text));
                text_free(&text);
            }
            for (int row = 0; k == 0 && row < tuned->rows; row++)
                tuned_offer(&knobs[0], &tuned->row[row].problem, &lender);
            if (k == 1)
                tuned_offer_all(&knobs[0], text_string(&whole), whole.size, &lender);
            if (loans[i][1])
                cr_expect_arr_eq(&lender, &knobs[1], sizeof lender, "%s, %d", loans[i][0], k);
            else
                cr_expect_eq(lender.family, AUTO, "%s, %d", loans[i][0], k);
        }
    text_free(&whole);
    tuned_free(tuned);
}

Test(tuned, a_denial_is_for_variants_with_all_its_knobs_and_for_its_version) {
    struct tuned *tuned = read_table(example);
    struct variant variant = {.knobs = knobs_default()};
    variant.knobs.family = family_attention_forward;
    variant.knobs.algorithm = algorithm_flash_async;
    variant.knobs.head_dim = 8;
    cr_expect_eq(tuned_denies(tuned, &variant, "0.1.0"), &tuned->denial[0]);
    cr_expect_null(tuned_denies(tuned, &variant, "0.2.0"));
    variant.knobs.head_dim = 16;
    cr_expect_null(tuned_denies(tuned, &variant, "0.1.0"));
    variant.knobs.family = family_merge;
    cr_expect_eq(tuned_denies(tuned, &variant, "9"), &tuned->denial[1]);
    tuned_free(tuned);
}

static const struct {
    const char *text, *error;
} mistakes[] = {
    {"", "this tuned table is empty: start it with `device: NAME`"},
    {"[]", "t.yaml:1:1: error: a tuned table takes a map, found a list"},
    {"best: []", "a tuned table needs the key 'device'"},
    {"device: {}", "t.yaml:1:9: error: device takes a single value, found a map"},
    {"device:", "device takes a single value, found nothing"},
    {HEAD "bst: []", "t.yaml:2:1: error: unknown key 'bst'; did you mean 'best'?"},
    {HEAD "best: {}", "best takes a list, found a map"},
    {HEAD "best: [1]", "an entry of best takes a map, found a single value"},
    {HEAD "best: [{shapes: []}]", "an entry of best needs the key 'problem'"},
    {HEAD "best: [{problem: {}}]", "a problem needs the key 'family'"},
    {HEAD "best: [{problem: {family: merge}}]", "an entry of best needs the key 'shapes'"},
    {HEAD "best: [{problem: {family: mrge}, shapes: []}]", "t.yaml:2:27: error: family must be"},
    {HEAD "best: [{problem: {family: merge, block_m: 3}, shapes: []}]", "block_m does not belong to a problem"},
    {PROBLEM "      - {}", "a row needs the key 'shape'"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}", "a row needs the key 'schedule'"},
    {PROBLEM "      - shape: {len_q: 1}\n        schedule: {}", "this shape needs len_kv"},
    {PROBLEM "      - shape: {rows: 1}\n        schedule: {}", "'rows' is not a size of attention_forward"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1, heads: 3, kv_heads: 2}\n        schedule: {}",
     "kv_heads must divide"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {block_m: 1000}", "t.yaml:6:29: error: block_m"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {blocks: per_tile}",
     "t.yaml:6:20: error: knob 'blocks' is called 'scheduler' now\n    6 |             schedule: {blocks: per_tile}\n"
     "      |                        ^\n"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {blocks: resident}",
     "t.yaml:6:28: error: 'resident' of knob scheduler is called 'persistent' now"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {block: 64}", "unknown knob 'block'"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {dtype: bf16}",
     "dtype does not belong to a schedule"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {}\n        margin: 1e3",
     "margin must be a number such as 12.5, found '1e3'"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {}\n        margin: -1",
     "margin must be a number"},
    {PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {}\n        margin: 1.",
     "margin must be a number"},
    {PROBLEM
     "      - {shape: {len_q: 1, len_kv: 1}, schedule: {}}\n      - {shape: {len_kv: 1, len_q: 1}, schedule: {}}",
     "t.yaml:6:9: error: this problem has a row for this shape and target already"},
    {HEAD "deny: [{because: x}]", "a denial needs the key 'variant'"},
    {HEAD "deny: [{variant: {family: merge}}]", "a denial needs the key 'because'"},
    {HEAD "deny: [{variant: {dtype: bf16}, because: x}]", "a variant needs the key 'family'"},
    {HEAD "device: b", "'device' appears twice"},
    {HEAD "lock: 0.0.9\nbest: []",
     "t.yaml:2:7: error: this lock file is for attile 0.0.9 and this is attile " GEN_VERSION},
    {HEAD "lock: []", "lock takes a single value, found a list"},
    {"lock: " GEN_VERSION "\n" PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {target: any}",
     "t.yaml:6:1: error: a schedule of a lock file needs 'algorithm'"},
    {"lock: " GEN_VERSION "\n" PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {algorithm: flash}",
     "t.yaml:6:1: error: a schedule of a lock file needs 'target'"},
    {"lock: " GEN_VERSION "\n" PROBLEM "      - shape: {len_q: 1, len_kv: 1}\n        schedule: {blocks: per_tile}",
     "error: knob 'blocks' is called 'scheduler' now"},
    {HEAD "measured: &a x", "t.yaml:2:11: error: anchors"},
};

Test(tuned, mistakes_are_reported_where_they_are) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct diag diag = {0};
        struct tuned *tuned = tuned_read("t.yaml", mistakes[i].text, strlen(mistakes[i].text), &diag);
        cr_expect_null(tuned, "%s", mistakes[i].text);
        cr_expect(strstr(text_string(&diag.text), mistakes[i].error), "%s\ngave\n%s\nexpected\n%s", mistakes[i].text,
                  text_string(&diag.text), mistakes[i].error);
        tuned_free(tuned);
        diag_free(&diag);
    }
}

Test(tuned, all_mistakes_are_reported_in_one_pass) {
    static const char text[] = PROBLEM "      - shape: {len_q: 0x1, len_kv: 1}\n"
                                       "        schedule: {block_m: no}\n"
                                       "      - shape: {len_q: 1, len_kv: 1}\n"
                                       "        schdule: {}\n";
    struct diag diag = {0};
    cr_expect_null(tuned_read("t.yaml", text, strlen(text), &diag));
    cr_expect_eq(diag.errors, 4, "%s", text_string(&diag.text)); /* two values, an unknown key, a missing one */
    diag_free(&diag);
}

static bool is_at(const struct tuned_row *a, const struct tuned_row *b) {
    return memcmp(&a->problem, &b->problem, sizeof a->problem) == 0 &&
           memcmp(&a->shape, &b->shape, sizeof a->shape) == 0;
}

/* At a row's own shape its kernel is chosen, unless there is a faster one. */
Test(tuned, the_h200_has_rows_for_older_targets_only_where_it_has_faster_ones) {
    size_t size;
    const char *text = tuned_embedded("nvidia_h200.yaml", &size);
    struct diag diag = {0};
    struct tuned *tuned = tuned_read("nvidia_h200.yaml", text, size, &diag);
    int older = 0;
    cr_assert(tuned, "%s", text_string(&diag.text));
    for (const struct tuned_row *row = tuned->row; row < tuned->row + tuned->rows; row++) {
        bool faster = row->schedule.target == target_sm_90a;
        older += !faster;
        for (const struct tuned_row *other = tuned->row; !faster && other < tuned->row + tuned->rows; other++)
            faster =
                other->schedule.target == target_sm_90a && is_at(row, other) && other->microseconds < row->microseconds;
        cr_expect(faster, "line %d", row->line);
    }
    cr_expect_gt(older, 0);
    tuned_free(tuned);
}
