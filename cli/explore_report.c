/* The page of --report: all candidates, what the compiler said of the best, and measurements beside them. */
#include "explore.h"
#include "file.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_candidates(const struct exploration *e, struct report *report) {
    for (int i = 0; i < e->candidates.count; i++) {
        struct variant variant;
        explore_variant(e, &e->candidates.candidate[i], &variant);
        for (int k = 0; k < e->shapes.count; k++)
            report_add(report, &variant, k);
    }
}

/* Compiled candidates are few. */
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
    return code;
}

static enum exit_code read_map(const struct exploration *e, struct report *report) {
    const char *text = cli_text(e->cli, "map", NULL), *comma = text ? strchr(text, ',') : NULL;
    if (!text)
        return CLI_OK;
    report->map_x = comma ? knob_find(text, (size_t)(comma - text)) : -1;
    report->map_y = comma ? knob_find(comma + 1, strlen(comma + 1)) : -1;
    if (report->map_x >= 0 && report->map_y >= 0 && report->map_x != report->map_y)
        return CLI_OK;
    return cli_error(e->cli, CLI_USAGE, "--map expects two knobs, 'block_n,stages' say, found '%s'", text);
}

static enum exit_code save(const struct exploration *e, const struct report *report) {
    const char *folder = cli_text(e->cli, "report", "");
    struct text html = {0}, path = {0}, error = {0};
    enum exit_code code = CLI_OK;
    report_write(report, &html);
    text_print(&path, "%s/index.html", folder);
    if (report->failed || html.failed || path.failed)
        code = cli_error(e->cli, CLI_INTERNAL, "out of memory for the report");
    else if (!file_make_folder(folder, &error) || !file_save(text_string(&path), html.bytes, html.size, NULL, &error))
        code = cli_error(e->cli, CLI_IO, "%s", text_string(&error));
    else
        cli_note(e->cli, "wrote %s", text_string(&path));
    text_free(&html);
    text_free(&path);
    text_free(&error);
    return code;
}

enum exit_code explore_report(struct exploration *e) {
    struct report report;
    report_open(&report, "Schedules explored", &e->gpu, e->spec->family);
    snprintf(report.about, sizeof report.about,
             "%s: %lld schedules, %d possible, %d compiled for %s; predictions for %s (attile %s).", e->catalog.name,
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
    if (!code)
        code = save(e, &report);
    report_close(&report);
    return code;
}
