#include "helper_cases.h"
#include "journal.h"
#include "report.h"
#include "svg.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct template_set *open_set(void) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

static struct variant variant_of(struct template_set *set, int head_dim, int block_n) {
    struct knobs knobs = knobs_default();
    struct variant variant;
    knobs.family = family_attention_forward;
    knobs.dtype = dtype_bf16;
    knobs.head_dim = head_dim;
    knobs.algorithm = algorithm_flash_async;
    knobs.target = target_sm_90a;
    knobs.block_m = 128;
    knobs.block_n = block_n;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    return variant;
}

static const struct shape shape = {.batch = 2, .heads = 16, .kv_heads = 16, .len_q = 2048, .len_kv = 2048};

static void open_report(struct report *report) {
    struct model_gpu gpu;
    cr_assert(model_gpu_find("h200", &gpu));
    report_open(report, "A <title> & more", &gpu, family_attention_forward);
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

/* Checks that tags open and close in order, that attributes have quotes in pairs, and that no character ends a
   tag too early. */
static void expect_well_formed(const char *html) {
    const char *stack[64];
    size_t size[64];
    int depth = 0;
    static const char *const empty[] = {"meta", "!DOCTYPE", "path", "circle", "rect", "br"};
    for (const char *at = html; (at = strchr(at, '<')); at++) {
        const char *end = strchr(at, '>');
        cr_assert(end, "'<' without '>': %.80s", at);
        const char *name = at + 1 + (at[1] == '/');
        size_t length = strcspn(name, " />\n");
        bool is_empty = end[-1] == '/';
        for (size_t i = 0; i < 2; i++)
            is_empty |= strlen(empty[i]) == length && memcmp(empty[i], name, length) == 0;
        int quotes = 0;
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        cr_assert_eq(quotes % 2, 0, "%.120s", at);
        if (at[1] == '/') {
            cr_assert_gt(depth, 0, "%.80s", at);
            depth--;
            cr_assert(size[depth] == length && memcmp(stack[depth], name, length) == 0, "%.40s closed by %.40s",
                      stack[depth], at);
        } else if (!is_empty) {
            cr_assert_lt(depth, 64);
            stack[depth] = name;
            size[depth++] = length;
        }
    }
    cr_expect_eq(depth, 0);
}

static void fill(struct report *report, struct template_set *set) {
    int at = report_add_shape(report, &shape);
    for (int head_dim = 64; head_dim <= 128; head_dim += 64)
        for (int block_n = 64; block_n <= 128; block_n += 32) {
            struct variant variant = variant_of(set, head_dim, block_n);
            struct report_point *point = report_add(report, &variant, at);
            cr_assert_not_null(point);
            cr_expect_gt(point->predicted, 0);
            point->compiled = block_n > 64;
            point->registers = 168;
            point->front = block_n == 96;
        }
    report_add_time(report, "compiling", 3);
}

Test(report, a_page_is_whole_and_needs_nothing_else) {
    struct template_set *set = open_set();
    struct report report;
    struct text html = {0};
    open_report(&report);
    fill(&report, set);
    cr_expect_eq(report.problems, 2);
    cr_expect_eq(report.points, 6);
    report_write(&report, &html);
    expect_well_formed(html.bytes);
    cr_expect_not_null(strstr(html.bytes, "A &lt;title&gt; &amp; more"));
    cr_expect_null(strstr(html.bytes, "<title>A <title>"));
    cr_expect_null(strstr(html.bytes, "http:"), "no network");
    cr_expect_null(strstr(html.bytes, "https:"), "no network");
    cr_expect_null(strstr(html.bytes, "<script"));
    cr_expect_null(strstr(html.bytes, "nan"), "no number is missing");
    cr_expect_null(strstr(html.bytes, "inf"), "no number is missing");
    cr_expect_not_null(strstr(html.bytes, "nothing was measured"));
    static const char *const sections[] = {"Winner by shape", "Roofline", "Predicted against measured", "Pareto front",
                                           "Where the time went"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        cr_expect_not_null(strstr(html.bytes, sections[i]), "%s", sections[i]);
    text_free(&html);
    report_close(&report);
    template_set_close(set);
}

Test(report, two_masks_are_two_problems) {
    static const char *const masks[] = {"family=attention_forward dtype=bf16 head_dim=64 mask='k < 7'",
                                        "family=attention_forward dtype=bf16 head_dim=64 mask='k < 8'"};
    struct template_set *set = open_set();
    struct report report;
    struct variant variant[2];
    open_report(&report);
    int at = report_add_shape(&report, &shape);
    for (int i = 0; i < 2; i++) {
        struct knobs knobs = knobs_default();
        struct input input = {"problem", masks[i], strlen(masks[i])};
        struct diag diag = {0};
        cr_assert(knobs_parse(&input, 7, &knobs, &diag) && variant_complete(set, &knobs, false, &variant[i]));
        cr_assert_not_null(report_add(&report, &variant[i], at));
    }
    cr_expect_eq(report.problems, 2);
    memcpy(variant[1].name, variant[0].name, sizeof variant[1].name); /* as if the hashes were equal */
    cr_expect_eq(report_find(&report, &variant[0], at), &report.point[0]);
    cr_expect_neq(report_find(&report, &variant[1], at), &report.point[0]);
    report_close(&report);
    template_set_close(set);
}

Test(report, nothing_at_all_is_a_page_too) {
    struct report report;
    struct text html = {0};
    open_report(&report);
    report_write(&report, &html);
    expect_well_formed(html.bytes);
    text_free(&html);
    report_close(&report);
}

Test(report, a_single_point_and_strange_numbers_make_plots) {
    struct text svg = {0};
    struct plot plot;
    const double values[][2] = {{1, 1}, {1e-9, 1e12}, {5, 5.0000001}, {0, 0}, {-3, 7}, {NAN, 1}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int log = 0; log < 2; log++) {
            plot_open(&plot, &svg, svg_axis("<x>", values[i][0], values[i][1], log), svg_axis("y", 1, 2, false));
            plot_mark(&plot, values[i][0], 1.5, (int)i, true, "\"title\"");
            plot_mark(&plot, NAN, INFINITY, 0, false, "none");
            plot_line(&plot, values[i][0], 0, values[i][1], 5, true, "line");
            plot_line(&plot, NAN, 0, 1, 5, true, "line");
            plot_close(&plot);
        }
    expect_well_formed(svg.bytes);
    cr_expect_null(strstr(svg.bytes, "nan"));
    cr_expect_null(strstr(svg.bytes, "inf"));
    text_free(&svg);
}

static void write_results(const char *path, const char *device, int kernels) {
    struct template_set *set = open_set();
    struct text file = {0};
    FILE *stream = fopen(path, "w");
    for (int i = 0; i < kernels; i++) {
        struct variant variant = variant_of(set, 128, 64 + 16 * (i % 5));
        struct record record;
        record_clear(&record);
        snprintf(record.device, sizeof record.device, "%s", device);
        snprintf(record.problem, sizeof record.problem, "family=attention_forward dtype=bf16 head_dim=128");
        snprintf(record.shape, sizeof record.shape, "batch=2,heads=16,len_q=2048,len_kv=2048");
        snprintf(record.target, sizeof record.target, "sm_90a");
        snprintf(record.schedule, sizeof record.schedule, "algorithm=flash_async block_m=128 block_n=%d",
                 variant.knobs.block_n);
        snprintf(record.variant, sizeof record.variant, "%s", variant.name);
        snprintf(record.status, sizeof record.status, i == 4 ? "wrong" : "ok");
        record.cold_median = 1e-3 + 1e-4 * (i / 5);
        record.registers = 168;
        record_print(&record, &file);
    }
    text_print(&file, "{\"torn");
    cr_assert(stream && fwrite(file.bytes, 1, file.size, stream) == file.size && fclose(stream) == 0);
    text_free(&file);
    template_set_close(set);
}

Test(report, measurements_of_this_gpu_are_shown_and_no_others) {
    struct template_set *set = open_set();
    struct report report;
    struct report_results results;
    struct text html = {0}, error = {0};
    char path[] = "/tmp/attile-report-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    open_report(&report);
    report_add_shape(&report, &shape);
    write_results(path, "NVIDIA H200", 10);
    cr_assert(report_read_results(&report, set, path, false, &results, &error), "%s", text_string(&error));
    cr_expect_eq(results.used, 9);
    cr_expect_eq(results.failed, 1);
    cr_expect_eq(results.foreign, 0);
    cr_expect_eq(results.unknown, 1, "the torn line: %d", results.unknown);
    cr_expect_eq(report.shapes, 1, "kv_heads left out are as many as heads");
    cr_expect_eq(report.points, 5);
    cr_expect_float_eq(report.point[0].measured, 1.05e-3, 1e-9, "the mean of two: %g", report.point[0].measured);
    report_write(&report, &html);
    expect_well_formed(html.bytes);
    cr_expect_gt(count_of(html.bytes, "measured 1.05 ms"), 2);
    write_results(path, "NVIDIA H100", 10);
    cr_assert(report_read_results(&report, set, path, false, &results, &error));
    cr_expect_eq(results.used, 0);
    cr_expect_eq(results.foreign, 10);
    cr_expect_not(report_read_results(&report, set, "/nowhere/at/all", false, &results, &error));
    cr_expect_gt(error.size, 0);
    unlink(path);
    text_free(&html);
    text_free(&error);
    report_close(&report);
    template_set_close(set);
}

/* A table labels a row by what distinguishes it from the others, compiled or not. */
Test(report, rows_of_a_table_have_labels_of_their_own) {
    struct template_set *set = open_set();
    struct report report;
    struct text html = {0};
    open_report(&report);
    int at = report_add_shape(&report, &shape);
    for (int n = 64; n <= 128; n += 32) {
        struct variant variant = variant_of(set, 128, n);
        struct report_point *point = report_add(&report, &variant, at);
        point->compiled = n == 64;
        point->registers = 128;
    }
    report_write(&report, &html);
    static const char *const labels[] = {"<td>flash_async n64</td>", "<td>flash_async n96</td>",
                                         "<td>flash_async n128</td>"};
    for (int i = 0; i < 3; i++)
        cr_expect(strstr(text_string(&html), labels[i]), "no %s", labels[i]);
    text_free(&html);
    report_close(&report);
    template_set_close(set);
}

Test(report, a_legend_lists_what_is_plotted_and_colours_follow_the_reader) {
    struct template_set *set = open_set();
    struct report report;
    struct text html = {0};
    open_report(&report);
    int at = report_add_shape(&report, &shape);
    struct variant plotted = variant_of(set, 128, 64), other = plotted;
    struct knobs knobs = knobs_default();
    knobs.family = family_attention_forward;
    knobs.head_dim = 128;
    knobs.algorithm = algorithm_multi_pass;
    cr_assert(variant_complete(set, &knobs, true, &other), "%s", other.reason);
    report_add(&report, &other, at);
    report_add(&report, &plotted, at)->measured = 1e-3;
    report_write(&report, &html);
    const char *legend = strstr(text_string(&html), "class=\"legend\"");
    cr_assert_not_null(legend);
    const char *end = strstr(legend, "</p>"), *absent = strstr(legend, "multi_pass");
    cr_expect(strstr(legend, "flash_async") < end && strstr(legend, "filled: measured") < end);
    cr_expect(!absent || absent > end, "multi_pass was only predicted, and has no dot");
    cr_expect(strstr(text_string(&html), "prefers-color-scheme:dark"));
    text_free(&html);
    report_close(&report);
    template_set_close(set);
}
