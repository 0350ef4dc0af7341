#include "helper_cases.h"
#include "helper_template.h"
#include "template.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *no_text(void *context, const char *name, size_t *size) {
    (void)context;
    (void)name;
    (void)size;
    return NULL;
}

/* --- text cases: template in, messages out ------------------------------------------------------------------------ */

static void run_case(const char *title, const char *input, size_t size, struct text *output) {
    struct template_text text = {input, size};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    cr_assert_eq(set == NULL, diag.errors > 0, "%s", title);
    text_print(output, "%s", set ? "good\n" : text_string(&diag.text));
    template_set_close(set);
    diag_free(&diag);
}

Test(template, text_cases) {
    static const char *const files[] = {"template/directives.txt", "template/structure.txt", "template/values.txt",
                                        "template/defaults.txt", "template/choices.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        cr_expect_eq(cases_check(files[i], run_case, NULL), 0, "%s", files[i]);
}

/* --- properties ---------------------------------------------------------------------------------------------------- */

static struct template_set *open_text(const char *source, struct diag *diag) {
    static struct template_text text;
    text = (struct template_text){source, strlen(source)};
    return template_text_open(&text, diag);
}

static knob_flags used_by(const char *source) {
    struct diag diag = {0};
    struct template_set *set = open_text(source, &diag);
    struct knobs knobs = template_text_knobs();
    const struct template_row *row;
    char reason[256] = "";
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    const struct template *template = template_find(set, &knobs, &row, reason, sizeof reason);
    cr_assert_not_null(template, "%s", reason);
    knob_flags used = template->used;
    template_set_close(set);
    return used;
}

Test(template, a_knob_is_used_when_a_directive_a_value_or_the_text_names_it) {
    static const struct {
        const char *text;
        knob_flags used;
    } cases[] = {
        {"", 0},
        {"int x = BLOCK_M;\n", KNOB_FLAG(KNOB_block_m)},
        {"int x = BLOCK_M_ + XBLOCK_M + BLOCK;\n", 0},
        {"int x = block_m;\n", 0},
        {"// BLOCK_M in a comment\n/* and BLOCK_N\n THREADS */ int y;\n", 0},
        {"const char *s = \"BLOCK_M\"; int i = BLOCK_N;\n", KNOB_FLAG(KNOB_block_n)},
        {"f(1/THREADS); /**/ g(HEAD_DIM_V);\n", KNOB_FLAG(KNOB_threads) | KNOB_FLAG(KNOB_head_dim_v)},
        {"char quote = '\"'; int x = BLOCK_M;\n", KNOB_FLAG(KNOB_block_m)},
        {"MASK DTYPE TARGET\n", 0}, /* words do not become constants */
        {"//$ if mask == causal\n//$ end\n", KNOB_FLAG(KNOB_mask)},
        {"int x = $head_dim;\n", KNOB_FLAG(KNOB_head_dim)},
        {"int x = ${2 * head_dim + threads};\n", KNOB_FLAG(KNOB_head_dim) | KNOB_FLAG(KNOB_threads)},
        {"//$ default threads = block_m\n", KNOB_FLAG(KNOB_threads) | KNOB_FLAG(KNOB_block_m)},
        {"//$ include \"p.cuh\"\n@ p.cuh\n//$ needs block_n\nBLOCK_N\n", KNOB_FLAG(KNOB_block_n)},
        {"//$ if head_dim == 1\n//$ include \"p.cuh\"\n//$ end\n@ p.cuh\n//$ needs block_n\nBLOCK_N\n",
         KNOB_FLAG(KNOB_block_n) | KNOB_FLAG(KNOB_head_dim)},
        {"@ p.cuh\nBLOCK_N\n", 0}, /* a file that nobody includes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(used_by(cases[i].text), cases[i].used, "%s uses other knobs", cases[i].text);
}

Test(template, the_row_is_chosen_by_family_algorithm_and_loop_order) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(no_text, NULL, &diag);
    cr_assert_not_null(set); /* absent files are not an error until one is used */
    static const struct {
        struct {
            int family, algorithm, loop_order;
        } want;
        const char *reason;
    } cases[] = {
        {{family_softmax, AUTO, loop_order_q_outer}, "there is no template softmax_online.cu"},
        {{family_softmax, algorithm_three_pass, loop_order_kv_outer}, "there is no template softmax_three_pass.cu"},
        {{family_attention_forward, AUTO, loop_order_q_outer}, "there is no template attention_flash_tiled.cu"},
        {{family_attention_forward, AUTO, loop_order_kv_outer}, "there is no template attention_flash_tiled_kv.cu"},
        {{family_attention_forward, AUTO, AUTO}, "there is no template attention_flash_tiled.cu"},
        {{family_attention_forward, algorithm_flash, AUTO}, "there is no template attention_flash.cu"},
        {{family_merge, algorithm_flash, AUTO}, "family merge has no algorithm flash"},
        {{AUTO, algorithm_flash, AUTO}, "the family is not given"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct knobs knobs = knobs_default();
        const struct template_row *row;
        char reason[256] = "";
        knobs.family = cases[i].want.family;
        knobs.algorithm = cases[i].want.algorithm;
        knobs.loop_order = cases[i].want.loop_order;
        cr_expect_null(template_find(set, &knobs, &row, reason, sizeof reason));
        cr_expect(strncmp(reason, cases[i].reason, strlen(cases[i].reason)) == 0, "%s", reason);
    }
    template_set_close(set);
}

/* With a loader, all templates are read at once. */
Test(template, what_is_built_in_has_no_error) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(template_embedded, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    template_set_close(set);
    template_set_close(NULL);
}

Test(template, what_is_built_in_is_found_again_once_it_was_read) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set);
    for (int i = 0; i < template_row_count; i++) {
        struct knobs knobs = knobs_default();
        const struct template_row *row;
        char reason[256] = "";
        knobs.family = template_rows[i].family;
        knobs.algorithm = template_rows[i].algorithm;
        knobs.loop_order = template_rows[i].loop_order == ANY_LOOP_ORDER ? AUTO : template_rows[i].loop_order;
        const struct template *first = template_find(set, &knobs, &row, reason, sizeof reason);
        cr_assert_not_null(first, "%s", reason);
        cr_expect_str_eq(first->name, template_rows[i].file);
        cr_expect_eq(template_find(set, &knobs, &row, reason, sizeof reason), first);
    }
    template_set_close(set);
}

/* Repeats `unit` and expects a message. */
static void expect_refused(const char *before, const char *unit, int count, const char *after, const char *message) {
    struct text text = {0};
    struct diag diag = {0};
    text_print(&text, "%s", before);
    for (int i = 0; i < count; i++)
        text_print(&text, unit, i);
    text_print(&text, "%s", after);
    struct template_set *set = open_text(text_string(&text), &diag);
    cr_expect_null(set, "%s", unit);
    cr_expect(strstr(text_string(&diag.text), message), "%s: %s", unit, text_string(&diag.text));
    template_set_close(set);
    diag_free(&diag);
    text_free(&text);
}

Test(template, everything_is_bounded) {
    expect_refused("", "//$ if 1 == %d\n", 1000, "", "more than 16 nested blocks");
    expect_refused("", "//$ let name_%d = 1\n", 1000, "", "more than 160 names in one template");
    expect_refused("", "//$ include \"p%d\"\n", 2, "", "template 'p0' does not exist");
    expect_refused("//$ let ", "very_long_%d_", 30, " = 1\n", "a name has less than 48 letters");
    expect_refused("//$ launch ", "very_long_%d_", 30, " grid 1 block 1 shared 1\n",
                   "an entry's name has less than 64 letters");
    expect_refused("", "a line of text that is number %d\n", 40000, "", "is larger than 1 MiB");
    expect_refused("//$ include \"p\"\n@ p\n", "a line of text that is number %d\n", 40000, "",
                   "template 'p' is larger than 1 MiB");
}

Test(template, includes_are_bounded_in_depth_and_number) {
    struct text deep = {0}, wide = {0};
    text_print(&deep, "//$ include \"p0\"\n");
    for (int i = 0; i < 20; i++)
        text_print(&deep, "@ p%d\n//$ include \"p%d\"\n", i, i + 1);
    for (int i = 0; i < TEMPLATE_FILES; i++)
        text_print(&wide, "//$ include \"p%d\"\n", i);
    for (int i = 0; i < TEMPLATE_FILES; i++)
        text_print(&wide, "@ p%d\n\n", i);
    struct diag diag = {0};
    cr_expect_null(open_text(text_string(&deep), &diag));
    cr_expect(strstr(text_string(&diag.text), "more than 8 includes within each other"), "%s", text_string(&diag.text));
    diag_free(&diag);
    cr_expect_null(open_text(text_string(&wide), &diag));
    cr_expect(strstr(text_string(&diag.text), "more than 256 files in one template"), "%s", text_string(&diag.text));
    diag_free(&diag);
    text_free(&deep);
    text_free(&wide);
}

/* Uses names and files up to the limits; includes_are_bounded and everything_is_bounded go beyond. */
Test(template, all_names_and_files_can_be_had) {
    struct text text = {0};
    struct diag diag = {0};
    for (int i = FACT_COUNT; i < TEMPLATE_SLOTS; i++)
        text_print(&text, "//$ let name_%d = %d\n", i, i);
    for (int i = 1; i < TEMPLATE_FILES; i++)
        text_print(&text, "//$ include \"p%d\"\n", i);
    text_print(&text, "//$ launch kernel grid 1 block 32 shared name_%d\n", TEMPLATE_SLOTS - 1);
    for (int i = 1; i < TEMPLATE_FILES; i++)
        text_print(&text, "@ p%d\nint part_%d;\n", i, i);
    struct template_set *set = template_text_open(&(struct template_text){text_string(&text), text.size}, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    struct source source;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.shared_bytes, TEMPLATE_SLOTS - 1);
    cr_assert(source_expand(set, &variant, "test", &source, &diag), "%s", text_string(&diag.text));
    cr_expect(strstr(text_string(&source.text), "int part_63;"));
    source_free(&source);
    template_set_close(set);
    text_free(&text);
}

/* No byte beyond the end is read: the text ends exactly where its allocation ends. */
Test(template, a_text_may_end_anywhere) {
    static const char whole[] = "//$ if head_dim == 1\nint $head_dim ${mask}$$;\n//$ end\n/* BLOCK_M */ \"x\" // $";
    for (size_t size = 0; size < sizeof whole; size++) {
        char *copy = malloc(size ? size : 1);
        struct diag diag = {0};
        memcpy(copy, whole, size);
        struct template_set *set = template_text_open(&(struct template_text){copy, size}, &diag);
        cr_expect_eq(set == NULL, diag.errors > 0);
        template_set_close(set);
        diag_free(&diag);
        free(copy);
    }
}

Test(template, bytes_that_are_no_text_are_refused) {
    struct template_text text = {"int x;\n\0int y;\n", 15};
    struct diag diag = {0};
    cr_expect_null(template_text_open(&text, &diag));
    cr_expect(strstr(text_string(&diag.text), "holds a NUL byte"));
    diag_free(&diag);
}
