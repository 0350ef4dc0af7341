/* The page of --report: all candidates, compiler results of the best, and measurements beside them. */
#include "agreement.h"
#include "explore.h"
#include "renamed.h"
#include "report_file.h"
#include "shape_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_candidates(const struct exploration *e, struct report *report) {
    for (int i = 0; i < e->candidates.count; i++) {
        struct variant variant;
        explore_variant(e, &e->candidates.candidate[i], &variant);
        for (int k = 0; k < e->shapes.count; k++)
            report_add(report, &variant, k);
    }
}

/* Adds compiler results of the compiled candidates, which are few. */
static void add_compiled(const struct exploration *e, struct report *report) {
    for (int i = 0; i < e->explored_count; i++) {
        const struct explored *x = &e->explored[i];
        for (int k = 0; k < e->shapes.count && x->compiled.outcome == COMPILE_GOOD; k++) {
            struct report_point *point = report_find(report, &x->variant, k);
            if (!point)
                continue;
            point->predicted = x->terms[k].seconds;
            point->compiled = true;
            point->registers = x->compiled.registers;
            point->spill_bytes = x->compiled.spill_bytes;
            point->shared_bytes = x->compiled.shared_bytes;
            point->instructions = x->compiled.instructions;
            point->compile_seconds = x->compiled.seconds;
            point->front = x->front;
        }
    }
}

struct saying { /* context of print_cell */
    const struct exploration *e;
    const struct report *report;
    struct text *out;
};

static void print_cell(void *context, int cell, const struct agreement_cell *judged) {
    const struct saying *saying = context;
    struct text sizes = {0};
    shape_print(&saying->report->shape[cell % REPORT_SHAPES], saying->report->family, &sizes);
    text_print(saying->out, "%8.3f %6.1f of %-6d %s at %s\n", judged->loss, judged->rank, judged->kernels,
               saying->report->problem[cell / REPORT_SHAPES].name, text_string(&sizes));
    text_free(&sizes);
}

static enum exit_code print_agreement(const struct exploration *e, const struct report *report) {
    struct agreement_point *point = calloc((size_t)report->points + 1, sizeof *point);
    struct agreement a;
    struct text text = {0};
    struct saying saying = {e, report, &text};
    int points = 0;
    if (!point)
        return cli_error(e->cli, CLI_INTERNAL, "out of memory");
    for (int i = 0; i < report->points; i++) {
        const struct report_point *p = &report->point[i];
        if (p->measured > 0 && p->predicted > 0)
            point[points++] =
                (struct agreement_point){p->problem * REPORT_SHAPES + p->shape, p->predicted, p->measured};
    }
    text_print(&text, "the model's first choice over the measured best, and the best's place in the model's order:\n");
    agreement_find(point, points, &a, print_cell, &saying);
    text_print(
        &text,
        "%d kernels in %d problems and shapes: first choice %.3f of the best (geometric mean), the best among the "
        "first %d in %d, %d of %d pairs in order, times within %.1f %%",
        a.points, a.cells, a.loss, AGREEMENT_FIRST, a.first_few, a.in_order, a.pairs, 100 * a.error);
    cli_note(e->cli, "%s", text_string(&text));
    text_free(&text);
    free(point);
    return CLI_OK;
}

static enum exit_code add_measured(const struct exploration *e, struct report *report) {
    struct text error = {0};
    struct report_results results;
    enum exit_code code = CLI_OK;
    const char *path = cli_text(e->cli, "measured", NULL);
    if (path && !report_read_results(report, e->catalog.templates, path, true, &results, &error))
        code = cli_error(e->cli, CLI_IO, "%s", text_string(&error));
    else if (path)
        cli_note(e->cli, "%s: %d measurements used, %d of other GPUs and %d of other versions left out", path,
                 results.used, results.foreign, results.unknown);
    text_free(&error);
    return code || !path ? code : print_agreement(e, report);
}

/* Returns a knob, or -1, with a hint if an earlier version used that name. */
static int read_axis(const char *name, size_t size, struct text *renamed) {
    int id = knob_find(name, size), now = id < 0 ? renamed_find(name, size) : -1;
    if (now >= 0 && !renamed->size)
        text_print(renamed, "; knob '%.*s' is called '%s' now", (int)size, name, knob_table[now].name);
    return id;
}

static enum exit_code read_map(const struct exploration *e, struct report *report) {
    const char *text = cli_text(e->cli, "map", NULL), *comma = text ? strchr(text, ',') : NULL;
    if (!text)
        return CLI_OK;
    struct text renamed = {0};
    report->map_x = comma ? read_axis(text, (size_t)(comma - text), &renamed) : -1;
    report->map_y = comma ? read_axis(comma + 1, strlen(comma + 1), &renamed) : -1;
    if (report->map_x >= 0 && report->map_y >= 0 && report->map_x != report->map_y)
        return CLI_OK;
    cli_error(e->cli, CLI_USAGE, "--map expects two knobs such as 'block_n,stages', found '%s'%s", text,
              text_string(&renamed));
    text_free(&renamed);
    return CLI_USAGE;
}

enum exit_code explore_report_check(const struct exploration *e) {
    struct report ignored = {0};
    const char *measured = cli_text(e->cli, "measured", NULL);
    enum exit_code code = read_map(e, &ignored);
    if (!code && measured && access(measured, R_OK) != 0)
        code = cli_error(e->cli, CLI_IO, "cannot open %s: %s", measured, strerror(errno));
    return code ? code : report_file_check(e->cli);
}

enum exit_code explore_report(struct exploration *e) {
    struct report report;
    const char *subject = e->made ? e->cli->options.argument[0] : e->catalog.name;
    report_open(&report, "Schedules explored", &e->gpu, e->spec->family);
    snprintf(report.title, sizeof report.title, "Schedules explored: %s", subject);
    snprintf(report.about, sizeof report.about,
             "%s: %lld schedules, %d possible, %d compiled for %s; predictions for %s (attile %s).", subject,
             (long long)e->candidates.tried, e->candidates.count, e->explored_count, e->gpu.arch, e->gpu.name,
             GEN_VERSION);
    for (int k = 0; k < e->shapes.count; k++)
        report_add_shape(&report, &e->shapes.shape[k]);
    add_candidates(e, &report);
    add_compiled(e, &report);
    enum exit_code code = read_map(e, &report);
    if (!code)
        code = add_measured(e, &report);
    report_add_time(&report, "enumerating and predicting", e->candidates.search_seconds);
    report_add_time(&report, "sorting", e->candidates.sort_seconds);
    report_add_time(&report, "compiling", e->compile_seconds);
    if (!code && cli_given(e->cli, "report"))
        code = report_file_save(e->cli, &report);
    report_close(&report);
    return code;
}
