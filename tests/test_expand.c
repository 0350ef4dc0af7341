#include "helper_cases.h"
#include "helper_template.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* --- text cases: template and knobs in, lines with their origins out ----------------------------------------------- */

/* The knobs of a case are in a part called "knobs". */
static struct knobs case_knobs(struct template_text *text) {
    struct knobs knobs = template_text_knobs();
    struct input input = {.name = "knobs"};
    struct diag diag = {0};
    input.text = template_text_load(text, "knobs", &input.size);
    unsigned groups = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    if (input.text)
        cr_assert(knobs_parse(&input, groups, &knobs, &diag), "%s", text_string(&diag.text));
    return knobs;
}

static void show_plan(const struct plan *plan, struct text *output) {
    for (int i = 0; i < plan->launches; i++) {
        text_print(output, "%s: grid ", plan->launch[i].entry);
        plan_print(&plan->launch[i].grid, output);
        text_print(output, ", block %d, shared %d", plan->launch[i].block, plan->launch[i].shared);
        if (plan->launch[i].cluster)
            text_print(output, ", cluster %d", plan->launch[i].cluster);
        if (plan->launch[i].dependent)
            text_print(output, ", dependent");
        if (plan->launch[i].params)
            text_print(output, ", params %s", plan_params_table[plan->launch[i].params].name);
        if (plan->launch[i].fills_tables)
            text_print(output, ", fills tables");
        text_print(output, "\n");
    }
    for (int i = 0; i < plan->maps; i++)
        text_print(output, "tensor map %s of %s, %d x %d%s\n", plan->map[i].name, plan_tensor_name[plan->map[i].tensor],
                   plan->map[i].rows, plan->map[i].cols, plan->map[i].packed ? ", packed" : "");
    if (plan->splits.expr[PLAN_SPLIT_MOST].count) {
        text_print(output, "splits:");
        plan_print_splits(&plan->splits, output);
        text_print(output, "\n");
    }
    text_print(output, "workspace ");
    plan_print(&plan->workspace, output);
    text_print(output, "\n");
}

/* Shows everything below the header, each line after its origin. */
static void show_body(const struct source *source, struct text *output) {
    const char *at = source->text.bytes, *end = at + source->text.size;
    bool in_header = true;
    for (int i = 0; i < source->lines; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        cr_assert_not_null(newline);
        int size = (int)(newline - at);
        if (!in_header && source->origin[i].file)
            text_print(output, "%s:%d|%.*s\n", source->origin[i].file, source->origin[i].line, size, at);
        else if (!in_header)
            text_print(output, "|%.*s\n", size, at);
        if (size == 2 && memcmp(at, "*/", 2) == 0)
            in_header = false;
        at = newline + 1;
    }
    cr_assert_eq(at, end);
}

static void run_case(const char *title, const char *input, size_t size, struct text *output) {
    struct template_text text = {input, size};
    struct diag diag = {0};
    struct template_set *set = template_text_open(&text, &diag);
    struct knobs knobs = case_knobs(&text);
    struct variant variant;
    struct source source;
    cr_assert_not_null(set, "%s: %s", title, text_string(&diag.text));
    if (!variant_complete(set, &knobs, true, &variant)) {
        text_print(output, "infeasible: %s\n", variant.reason);
    } else if (source_expand(set, &variant, "spec.yaml", &source, &diag)) {
        text_print(output, "%s\n", variant.name);
        show_plan(&source.plan, output);
        show_body(&source, output);
        source_free(&source);
    } else {
        text_print(output, "%s", text_string(&diag.text));
        source_free(&source);
    }
    diag_free(&diag);
    template_set_close(set);
}

Test(expand, text_cases) {
    static const char *const files[] = {"expand/lines.txt", "expand/functions.txt", "expand/choices.txt",
                                        "expand/infeasible.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        cr_expect_eq(cases_check(files[i], run_case, NULL), 0, "%s", files[i]);
}

/* --- properties ---------------------------------------------------------------------------------------------------- */

#define LAUNCH "//$ launch kernel grid len_q block 32 shared 0\n"

struct expanded {
    struct template_set *set;
    struct variant variant;
    struct source source;
    struct diag diag;
    bool good;
};

static struct expanded expand(const char *text, const char *spec_name) {
    static struct template_text held;
    struct expanded x = {0};
    held = (struct template_text){text, strlen(text)};
    struct knobs knobs = case_knobs(&held);
    x.set = template_text_open(&held, &x.diag);
    cr_assert_not_null(x.set, "%s", text_string(&x.diag.text));
    cr_assert(variant_complete(x.set, &knobs, true, &x.variant), "%s", x.variant.reason);
    x.good = source_expand(x.set, &x.variant, spec_name, &x.source, &x.diag);
    return x;
}

static void drop(struct expanded *x) {
    source_free(&x->source);
    diag_free(&x->diag);
    template_set_close(x->set);
}

Test(expand, equal_inputs_give_equal_bytes) {
    const char *text = LAUNCH "//$ let a = 2 * head_dim\nint x = A + HEAD_DIM;\n";
    struct expanded a = expand(text, "spec.yaml"), b = expand(text, "spec.yaml"), c = expand(text, "other.yaml");
    cr_assert(a.good && b.good && c.good);
    cr_expect_eq(a.source.text.size, b.source.text.size);
    cr_expect_str_eq(text_string(&a.source.text), text_string(&b.source.text));
    cr_expect_str_neq(text_string(&a.source.text), text_string(&c.source.text)); /* the header names the spec */
    drop(&a);
    drop(&b);
    drop(&c);
}

Test(expand, a_source_outlives_its_templates) {
    struct expanded x = expand(LAUNCH "//$ include \"p\"\nint a;\n@ p\nint b;\n", "spec.yaml");
    template_set_close(x.set);
    x.set = NULL;
    struct line_origin last = x.source.origin[x.source.lines - 1], part = x.source.origin[x.source.lines - 2];
    cr_expect_str_eq(last.file, "attention_flash.cu");
    cr_expect_eq(last.line, 3);
    cr_expect_str_eq(part.file, "p");
    cr_expect_eq(part.line, 1);
    drop(&x);
}

Test(expand, lines_are_tidy_whatever_the_template_holds) {
    static const char *const texts[] = {
        LAUNCH,
        LAUNCH "\n\n\nint x;   \t\r\n\n  \n\t\n\nint y;\n\n\n",
        LAUNCH "int x;",
        LAUNCH
        "\n//$ if true\n\n//$ end\n\nint x;\n\n//$ if false\n//$ end\n\n\n\nint y;\n//$ if false\nint z;\n//$ end\n\n",
        LAUNCH "//$ include \"p\"\n\n@ p\n\n\n",
        LAUNCH "   \t  ",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct expanded x = expand(texts[i], "s");
        const char *text = text_string(&x.source.text);
        cr_assert(x.good);
        int newlines = 0;
        for (const char *c = text; *c; c++)
            newlines += *c == '\n';
        cr_expect_eq(newlines, x.source.lines, "%s", texts[i]);
        cr_expect_null(strstr(text, "\n\n\n"), "%s", texts[i]);
        cr_expect_null(strstr(text, " \n"), "%s", texts[i]);
        cr_expect_null(strstr(text, "\t\n"), "%s", texts[i]);
        cr_expect_null(strchr(text, '\r'), "%s", texts[i]);
        cr_expect_eq(text[x.source.text.size - 1], '\n');
        cr_expect_neq(text[x.source.text.size - 2], '\n', "%s", texts[i]);
        cr_expect_eq(strlen(text), x.source.text.size);
        drop(&x);
    }
}

Test(expand, the_header_survives_any_spec_name) {
    struct expanded x = expand(LAUNCH "int x;\n", "a */ int y; /*\n\x1b[31m b\\");
    const char *text = text_string(&x.source.text), *end = strstr(text, "*/");
    cr_assert(x.good);
    cr_expect_eq(memcmp(text, "/*", 2), 0);
    cr_expect_str_eq(end, "*/\n\nint x;\n"); /* the first end of a comment is that of the header */
    cr_expect_null(strchr(text, 0x1b));
    drop(&x);
}

Test(expand, the_header_tells_everything_that_made_the_file) {
    struct expanded x =
        expand("//$ default block_m = 16\n//$ let bytes = 4 * block_m * head_dim\n"
               "//$ launch kernel grid (len_q + block_m - 1) / block_m block 32 shared bytes\n"
               "//$ workspace 8 * len_q\n//$ include \"part/p.cuh\"\nint x = BLOCK_M;\n@ part/p.cuh\nint y;\n",
               "some_spec.yaml");
    const char *const parts[] = {x.variant.name,
                                 GEN_VERSION,
                                 "attention_flash.cu",
                                 "part/p.cuh",
                                 "some_spec.yaml",
                                 "block_m",
                                 "rows of a Q tile",
                                 "4 * block_m * head_dim",
                                 "4096",
                                 "kernel: grid (len_q + 16 - 1) / 16, block 32, shared 4096 bytes",
                                 "8 * len_q bytes"};
    const char *text = text_string(&x.source.text), *end = strstr(text, "*/");
    cr_assert(x.good && end);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strstr(text, parts[i]);
        cr_expect(found && found < end, "%s", parts[i]);
    }
    drop(&x);
}

Test(expand, clusters_reach_plan_and_header) {
    struct expanded x =
        expand("//$ require target == sm_90a\n"
               "//$ launch kernel grid min(sm_count, len_q) * 2 block 32 shared 0 cluster head_dim / 32\n"
               "//$ launch second grid 1 block 32 shared 0 cluster 1\n@ knobs\ntarget=sm_90a\n",
               "s");
    cr_assert(x.good, "%s", text_string(&x.diag.text));
    cr_expect_eq(x.source.plan.launch[0].cluster, 2);
    cr_expect_eq(x.source.plan.launch[1].cluster, 0, "one block is no cluster");
    const char *const lines[] = {
        "kernel: grid min(sm_count, len_q) * 2, block 32, shared 0 bytes, clusters of 2 blocks\n",
        "second: grid 1, block 32, shared 0 bytes\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect(strstr(text_string(&x.source.text), lines[i]), "%s", text_string(&x.source.text));
    drop(&x);
}

Test(expand, an_infeasible_variant_is_refused) {
    struct expanded x = expand(LAUNCH, "s");
    struct source source;
    x.variant.feasible = false;
    strcpy(x.variant.reason, "of a reason");
    cr_expect_not(source_expand(x.set, &x.variant, "s", &source, &x.diag));
    cr_expect(strstr(text_string(&x.diag.text), "this variant cannot be expanded: of a reason"));
    source_free(&source);
    drop(&x);
}

Test(expand, loops_within_loops_end) {
    struct text text = {0};
    text_print(&text, LAUNCH);
    for (int i = 0; i < 12; i++)
        text_print(&text, "//$ for x%d in [1, 2, 3, 4, 5, 6, 7, 8]\n", i);
    text_print(&text, "\n");
    for (int i = 0; i < 12; i++)
        text_print(&text, "//$ end\n");
    struct expanded x = expand(text_string(&text), "s");
    cr_expect_not(x.good);
    cr_expect(strstr(text_string(&x.diag.text), "these loops have too many rounds"), "%s", text_string(&x.diag.text));
    drop(&x);
    text_free(&text);
}

Test(expand, counting_to_the_largest_number_ends) {
    static const char *const texts[] = {
        LAUNCH "//$ for i below 9223372036854775807\n//$ end\n",
        LAUNCH "//$ for i below 9223372036854775807\n\n//$ end\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct expanded x = expand(texts[i], "s");
        cr_expect_not(x.good);
        cr_expect(strstr(text_string(&x.diag.text), "these loops have too many rounds"));
        drop(&x);
    }
}

Test(expand, a_source_has_a_largest_size) {
    struct text text = {0};
    text_print(&text, LAUNCH "//$ for x in [1, 2, 3, 4, 5, 6, 7, 8]\n//$ for y in [1, 2, 3, 4, 5, 6, 7, 8]\n");
    for (int i = 0; i < 20000; i++)
        text_print(&text, "a line with many letters\n");
    text_print(&text, "//$ end\n//$ end\n");
    struct expanded x = expand(text_string(&text), "s");
    cr_expect_not(x.good);
    cr_expect(strstr(text_string(&x.diag.text), "the source is larger than 16 MiB here"), "%s",
              text_string(&x.diag.text));
    cr_expect(strstr(text_string(&x.diag.text), "note: while expanding attention_forward_flash"));
    drop(&x);
    text_free(&text);
}
