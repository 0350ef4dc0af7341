/* report_page: a report as HTML, with one section per picture; the sections of a problem are adjacent. */
#include "report.h"
#include "svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 512, PROBLEMS_SHOWN = 24, MAPS_SHOWN = 3, DOTS = 3000, BEST_SHOWN = 10, MAP_VALUES = 24 };

static const char style[] =
    ":root{color-scheme:light dark;--ink:#111;--page:#fff;--faint:#ddd;--line:#333;--dashed:#888}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e4e4;--page:#16181b;--faint:#3a3d42;--line:#bbb;--dashed:#888}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:60em;margin:2em auto;"
    "padding:0 1em}"
    "h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-top:1px solid var(--faint);padding-top:1em}"
    "h3{font-size:1em}svg{max-width:100%;height:auto;vertical-align:middle;fill:currentColor}"
    "svg text{font:12px system-ui,sans-serif}"
    ".tick{font-size:11px}.mid{text-anchor:middle}.end{text-anchor:end}"
    ".grid{stroke:var(--faint)}.frame{fill:none;stroke:var(--dashed)}.line{stroke:var(--line);fill:none}"
    ".dashed{stroke:var(--dashed);stroke-dasharray:5 4;fill:none}.cell{stroke:var(--page)}"
    "table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:2px 8px;border-bottom:1px solid var(--faint);text-align:right}"
    "td:first-child,th:first-child,.words{text-align:left}.legend{font-size:13px}"
    "@media "
    "print{body{max-width:none;margin:0;font-size:11px}h2,h3,svg,table{break-inside:avoid}h2,h3{break-after:avoid}}";

/* --- words ---------------------------------------------------------------------------------------------------------- */

static double time_of(const struct report_point *point) {
    return point->measured > 0 ? point->measured : point->predicted;
}

static bool is_measured(const struct report *report) {
    for (int i = 0; i < report->points; i++)
        if (report->point[i].measured > 0)
            return true;
    return false;
}

static void name_shape(const struct report *report, int shape, char *out, size_t size) {
    struct text text = {0};
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families & 1u << report->family)
            text_print(&text, "%s%s=%" PRId64, text.size ? " " : "", shape_table[id].name,
                       shape_get(&report->shape[shape], (enum shape_id)id));
    snprintf(out, size, "%s", text_string(&text));
    text_free(&text);
}

/* Prints the schedule as in a kernel's name: those knobs in `which` (bit KNOB_... set) that its template uses. */
static void name_schedule(const struct report_point *point, knob_flags which, char *out, size_t size) {
    struct text text = {0};
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = point->value[id];
        if (!knob_in(which, id) || value == AUTO)
            continue;
        text_print(&text, "%s%s", text.size ? " " : "", knob_table[id].words ? "" : knob_table[id].prefix);
        if (knob_table[id].words)
            text_print(&text, "%s", knob_word_name((enum knob_id)id, value));
        else
            text_print(&text, "%d", value);
    }
    snprintf(out, size, "%s",
             text.size ? text_string(&text) : knob_word_name(KNOB_algorithm, point->value[KNOB_algorithm]));
    text_free(&text);
}

static void print_time(char *out, size_t size, double seconds) {
    if (seconds <= 0)
        snprintf(out, size, "?");
    else
        snprintf(out, size, seconds < 1e-3 ? "%.4g \u00b5s" : "%.4g ms",
                 seconds < 1e-3 ? seconds * 1e6 : seconds * 1e3);
}

/* Prints the tooltip of a mark. */
static void describe(const struct report *report, const struct report_point *point, char *out, size_t size) {
    char shape[LINE], predicted[32], measured[32];
    name_shape(report, point->shape, shape, sizeof shape);
    print_time(predicted, sizeof predicted, point->predicted);
    print_time(measured, sizeof measured, point->measured);
    snprintf(out, size, "%s at %s: predicted %s, measured %s", point->name, shape, predicted, measured);
}

static void heading(struct text *html, int level, const char *words) {
    text_print(html, "<h%d>", level);
    html_escape(html, words);
    text_print(html, "</h%d>\n", level);
}

static void paragraph(struct text *html, const char *words) {
    text_print(html, "<p>");
    html_escape(html, words);
    text_print(html, "</p>\n");
}

/* --- choosing points ------------------------------------------------------------------------------------------------- */

/* True for points worth a dot: those compiled or measured, or all if there are none. */
static bool is_dot(const struct report *report, const struct report_point *point, bool any) {
    (void)report;
    return time_of(point) > 0 && (any || point->compiled || point->measured > 0);
}

static bool nothing_but_predicted(const struct report *report) {
    for (int i = 0; i < report->points; i++)
        if (report->point[i].compiled || report->point[i].measured > 0)
            return false;
    return true;
}

/* Returns the fastest point of a problem at a shape: measured ones come before predicted ones. */
static const struct report_point *winner(const struct report *report, int problem, int shape) {
    const struct report_point *best = NULL;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->problem != problem || point->shape != shape || time_of(point) <= 0)
            continue;
        bool measured = point->measured > 0, before = best && best->measured > 0;
        if (!best || (measured && !before) || (measured == before && time_of(point) < time_of(best)))
            best = point;
    }
    return best;
}

/* --- winners by shape ------------------------------------------------------------------------------------------------ */

static void write_winners(const struct report *report, struct text *html) {
    struct grid grid;
    char words[LINE], title[2 * LINE];
    heading(html, 2, "Winner by shape");
    paragraph(html,
              "The fastest schedule of every problem at every shape, and in the darkness of the cell how much of the "
              "peak of its pipe it reaches.");
    text_print(html, "<table><tr><th>column</th><th class=\"words\">shape</th></tr>");
    for (int k = 0; k < report->shapes; k++) {
        name_shape(report, k, words, sizeof words);
        text_print(html, "<tr><td>%d</td><td class=\"words\">", k + 1);
        html_escape(html, words);
        text_print(html, "</td></tr>");
    }
    text_print(html, "</table>\n");
    grid_open(&grid, html, report->shapes, report->problems, 110, "shape", "problem");
    for (int k = 0; k < report->shapes; k++) {
        snprintf(words, sizeof words, "%d", k + 1);
        grid_head(&grid, k, -1, words);
    }
    for (int p = 0; p < report->problems; p++) {
        grid_head(&grid, -1, p, report->problem[p].name);
        for (int k = 0; k < report->shapes; k++) {
            const struct report_point *best = winner(report, p, k);
            if (!best)
                continue;
            bool tensor = best->value[KNOB_algorithm] == algorithm_flash_async;
            double peak = report->gpu.multiprocessors * report->gpu.clock *
                          (tensor ? report->gpu.tensor : 2 * 32 * report->gpu.issue);
            name_schedule(best, KNOB_FLAG(KNOB_block_m) | KNOB_FLAG(KNOB_block_n), words, sizeof words);
            describe(report, best, title, sizeof title);
            grid_cell(&grid, k, p, best->flops / time_of(best) / peak, words, title);
        }
    }
    grid_close(&grid);
}

/* --- heat map -------------------------------------------------------------------------------------------------------- */

/* Lists the distinct values of a knob among the points of a problem, sorted; returns their number, at most
   MAP_VALUES. */
static int find_values(const struct report *report, int problem, int id, int *value) {
    int count = 0;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        int v = point->value[id], at = 0;
        if (point->problem != problem || v == AUTO || time_of(point) <= 0)
            continue;
        while (at < count && value[at] < v)
            at++;
        if ((at < count && value[at] == v) || count == MAP_VALUES)
            continue;
        memmove(value + at + 1, value + at, (size_t)(count - at) * sizeof *value);
        value[at] = v;
        count++;
    }
    return count;
}

/* Chooses the knobs that the caller named, else the tile sizes, else the two integer knobs with most values. */
static void choose_knobs(const struct report *report, int problem, int *x, int *y) {
    int values[MAP_VALUES], most = 1, second = 1;
    *x = report->map_x;
    *y = report->map_y;
    if (*x >= 0 && *y >= 0)
        return;
    *x = KNOB_block_n;
    *y = KNOB_block_m;
    if (find_values(report, problem, *x, values) > 1 && find_values(report, problem, *y, values) > 1)
        return;
    *x = *y = -1;
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (knob_table[id].group != KNOB_GROUP_SCHEDULE || knob_table[id].words)
            continue;
        int count = find_values(report, problem, id, values);
        if (count > most) {
            second = most, *y = *x;
            most = count, *x = id;
        } else if (count > second) {
            second = count, *y = id;
        }
    }
}

static void print_knob_value(int id, int value, char *out, size_t size) {
    if (knob_table[id].words)
        snprintf(out, size, "%s", knob_word_name((enum knob_id)id, value));
    else
        snprintf(out, size, "%d", value);
}

static const struct report_point *best_with(const struct report *report, int problem, int shape, int x, int vx, int y,
                                            int vy) {
    const struct report_point *best = NULL;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->problem == problem && point->shape == shape && time_of(point) > 0 && point->value[x] == vx &&
            point->value[y] == vy && (!best || time_of(point) < time_of(best)))
            best = point;
    }
    return best;
}

static void write_map(const struct report *report, int problem, int shape, int x, int y, struct text *html) {
    int columns[MAP_VALUES], rows[MAP_VALUES];
    int width = find_values(report, problem, x, columns), height = find_values(report, problem, y, rows);
    const struct report_point *winning = winner(report, problem, shape);
    char words[LINE], title[2 * LINE];
    struct grid grid;
    if (!winning || width < 1 || height < 1)
        return;
    name_shape(report, shape, words, sizeof words);
    text_print(html, "<p>");
    html_escape(html, words);
    text_print(html, "</p>\n");
    grid_open(&grid, html, width, height, 44, knob_table[x].name, knob_table[y].name);
    for (int i = 0; i < width; i++) {
        print_knob_value(x, columns[i], words, sizeof words);
        grid_head(&grid, i, -1, words);
    }
    for (int k = 0; k < height; k++) {
        print_knob_value(y, rows[k], words, sizeof words);
        grid_head(&grid, -1, k, words);
        for (int i = 0; i < width; i++) {
            const struct report_point *best = best_with(report, problem, shape, x, columns[i], y, rows[k]);
            double ratio = best ? time_of(best) / time_of(winning) : 0;
            if (!best)
                continue;
            snprintf(words, sizeof words, "%.*f", ratio < 10 ? 2 : 0, ratio);
            describe(report, best, title, sizeof title);
            grid_cell(&grid, i, k, fmax(0, 1 - 2 * (ratio - 1)), words, title);
        }
    }
    grid_close(&grid);
}

static void write_maps(const struct report *report, int problem, struct text *html) {
    int x, y;
    choose_knobs(report, problem, &x, &y);
    if (x < 0 || y < 0)
        return;
    char words[LINE];
    snprintf(words, sizeof words, "%s and %s", knob_table[x].name, knob_table[y].name);
    heading(html, 3, words);
    paragraph(
        html,
        "Time of the best schedule with these two values, measured if it was and predicted if not, over the best of "
        "all: dark is fast, lightest is 1.5 times the best or more; an empty cell is not possible, or was not "
        "looked at.");
    for (int k = 0; k < report->shapes && k < MAPS_SHOWN; k++)
        write_map(report, problem, k, x, y, html);
}

/* --- dots ------------------------------------------------------------------------------------------------------------ */

/* Lists the algorithms: each has a mark. */
static int list_algorithms(const struct report *report, int *algorithm, const char **name) {
    int count = 0;
    for (int i = 0; i < report->points; i++) {
        int at = 0, wanted = report->point[i].value[KNOB_algorithm];
        while (at < count && algorithm[at] != wanted)
            at++;
        if (at < count || count == MARKS)
            continue;
        algorithm[count] = wanted;
        name[count++] = knob_word_name(KNOB_algorithm, wanted);
    }
    return count;
}

static int kind_of(const struct report_point *point, const int *algorithm, int count) {
    for (int i = 0; i < count; i++)
        if (algorithm[i] == point->value[KNOB_algorithm])
            return i;
    return 0;
}

/* Writes the legend below a plot: the meaning of the marks that occur, and of filled ones. */
static void write_legend(const char **name, int count, unsigned plotted, const char *filled, struct text *html) {
    for (int i = 0; i < count; i++)
        name[i] = plotted >> i & 1 ? name[i] : NULL;
    svg_legend(html, name, count, filled);
}

static void write_roofline(const struct report *report, struct text *html) {
    const struct model_gpu *gpu = &report->gpu;
    int algorithm[MARKS], dots = 0;
    const char *name[MARKS];
    int count = list_algorithms(report, algorithm, name);
    unsigned plotted = 0; /* one bit per mark */
    bool any = nothing_but_predicted(report), tensor = false, filled = false;
    double least_x = INFINITY, most_x = 0, least_y = INFINITY, most_y = 0;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (!is_dot(report, point, any) || point->flops <= 0 || point->bytes <= 0)
            continue;
        least_x = fmin(least_x, point->flops / point->bytes), most_x = fmax(most_x, point->flops / point->bytes);
        least_y = fmin(least_y, point->flops / time_of(point)), most_y = fmax(most_y, point->flops / time_of(point));
        tensor |= point->value[KNOB_algorithm] == algorithm_flash_async;
        dots++;
    }
    if (!dots)
        return;
    double fma = gpu->multiprocessors * gpu->clock * 2 * 32 * gpu->issue;
    double full = gpu->multiprocessors * gpu->clock * gpu->tensor;
    double held = gpu->multiprocessors * (gpu->clock - gpu->clock_drop) * gpu->tensor, top = tensor ? full : fma;
    struct plot plot;
    char title[2 * LINE];
    heading(html, 2, "Roofline");
    paragraph(html, "Every dot is a variant at a shape; filled dots are measured. Lines: device memory, fp32 "
                    "multiply-adds, tensor pipe at the highest clock and at the one it can hold.");
    plot_open(&plot, html,
              svg_axis("flop for a byte of device memory", fmin(least_x, top / gpu->memory / 4),
                       fmax(most_x, top / gpu->memory * 4), true),
              svg_axis("TFLOP/s", least_y * 1e-12, fmax(most_y, top) * 1e-12, true));
    plot_line(&plot, plot.x.least, plot.x.least * gpu->memory * 1e-12, top / gpu->memory, top * 1e-12, false, "");
    plot_line(&plot, fma / gpu->memory, fma * 1e-12, plot.x.most, fma * 1e-12, !tensor ? false : true, "fp32");
    if (tensor) {
        plot_line(&plot, full / gpu->memory, full * 1e-12, plot.x.most, full * 1e-12, false, "tensor pipe");
        plot_line(&plot, held / gpu->memory, held * 1e-12, plot.x.most, held * 1e-12, true, "");
    }
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (!is_dot(report, point, any) || point->flops <= 0 || point->bytes <= 0 ||
            (dots > DOTS && i % (dots / DOTS + 1) != 0))
            continue;
        describe(report, point, title, sizeof title);
        int kind = kind_of(point, algorithm, count);
        plotted |= 1u << kind;
        filled |= point->measured > 0;
        plot_mark(&plot, point->flops / point->bytes, point->flops / time_of(point) * 1e-12, kind, point->measured > 0,
                  title);
    }
    plot_close(&plot);
    write_legend(name, count, plotted, filled ? "filled: measured" : NULL, html);
}

static void write_prediction(const struct report *report, struct text *html) {
    int algorithm[MARKS], measured = 0;
    const char *name[MARKS];
    int count = list_algorithms(report, algorithm, name);
    unsigned plotted = 0;
    double least = INFINITY, most = 0, squares = 0;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->measured <= 0 || point->predicted <= 0)
            continue;
        double error = log(point->predicted / point->measured);
        least = fmin(least, fmin(point->measured, point->predicted));
        most = fmax(most, fmax(point->measured, point->predicted));
        squares += error * error;
        measured++;
    }
    heading(html, 2, "Predicted against measured");
    if (!measured) {
        paragraph(html, "Nothing was measured.");
        return;
    }
    char words[2 * LINE];
    snprintf(words, sizeof words,
             "%d measurements; the root mean square of the logarithm of predicted over measured is %.3f. On the line "
             "the model is right; above it, it thinks the kernel slower than it is.",
             measured, sqrt(squares / measured));
    paragraph(html, words);
    struct plot plot;
    plot_open(&plot, html, svg_axis("measured, \u00b5s", least * 1e6, most * 1e6, true),
              svg_axis("predicted, \u00b5s", least * 1e6, most * 1e6, true));
    plot_line(&plot, least * 1e6, least * 1e6, most * 1e6, most * 1e6, false, "");
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->measured <= 0 || point->predicted <= 0)
            continue;
        describe(report, point, words, sizeof words);
        int kind = kind_of(point, algorithm, count);
        plotted |= 1u << kind;
        plot_mark(&plot, point->measured * 1e6, point->predicted * 1e6, kind, false, words);
    }
    plot_close(&plot);
    write_legend(name, count, plotted, NULL, html);
}

/* Plots time, relative to the best of its problem and shape, against shared memory; points on the front are filled. */
static void write_front(const struct report *report, int problem, struct text *html) {
    const char *kinds[] = {"up to 128 registers", "up to 168 registers", "more registers"};
    unsigned plotted = 0;
    double most_time = 1, most_shared = 0, least_shared = INFINITY;
    int dots = 0;
    const struct report_point *best = winner(report, problem, 0);
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->problem != problem || point->shape != 0 || !point->compiled || point->registers < 0)
            continue;
        most_time = fmax(most_time, time_of(point) / time_of(best));
        most_shared = fmax(most_shared, point->shared_bytes / 1024.0);
        least_shared = fmin(least_shared, point->shared_bytes / 1024.0);
        dots++;
    }
    if (dots < 2)
        return;
    struct plot plot;
    char title[2 * LINE], more[3 * LINE];
    heading(html, 3, "Pareto front");
    paragraph(html, "Compiled schedules at the first shape. Filled: no other is at least as good in time, registers, "
                    "shared memory and compile time, and better in one; times within 1 % are the same.");
    plot_open(&plot, html, svg_axis("shared memory of a block, KiB", least_shared, most_shared, false),
              svg_axis("time over the best", 1, most_time, false));
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        if (point->problem != problem || point->shape != 0 || !point->compiled || point->registers < 0)
            continue;
        describe(report, point, title, sizeof title);
        snprintf(more, sizeof more, "%s; %d registers, %d bytes spilled, %d bytes shared, compiled in %.2f s", title,
                 point->registers, point->spill_bytes, point->shared_bytes, point->compile_seconds);
        int kind = (point->registers > 128) + (point->registers > 168);
        plotted |= 1u << kind;
        plot_mark(&plot, point->shared_bytes / 1024.0, time_of(point) / time_of(best), kind, point->front, more);
    }
    plot_close(&plot);
    write_legend(kinds, 3, plotted, "filled: on the front", html);
}

/* --- the best, in numbers ------------------------------------------------------------------------------------------- */

/* Finds the schedule knobs that differ among the rows of a table: the others need not be repeated in each. */
static knob_flags find_varying(const struct report_point *const *row, int rows) {
    knob_flags varying = KNOB_FLAG(KNOB_algorithm);
    for (int id = 0; id < KNOB_COUNT; id++)
        for (int i = 1; i < rows; i++)
            if ((knob_table[id].group == KNOB_GROUP_SCHEDULE || id == KNOB_target) &&
                row[i]->value[id] != row[0]->value[id])
                varying |= KNOB_FLAG(id);
    return varying;
}

static void write_best(const struct report *report, int problem, int shape, struct text *html) {
    const struct report_point *row[BEST_SHOWN];
    int rows = 0;
    bool measured = false;
    for (int i = 0; i < report->points; i++)
        measured |=
            report->point[i].problem == problem && report->point[i].shape == shape && report->point[i].measured > 0;
    for (int i = 0; i < report->points; i++) {
        const struct report_point *point = &report->point[i];
        int at = rows;
        if (point->problem != problem || point->shape != shape || time_of(point) <= 0 ||
            (measured && point->measured <= 0))
            continue;
        while (at > 0 && time_of(row[at - 1]) > time_of(point))
            at--;
        if (at == BEST_SHOWN)
            continue;
        rows += rows < BEST_SHOWN;
        memmove(row + at + 1, row + at, (size_t)(rows - 1 - at) * sizeof *row);
        row[at] = point;
    }
    char words[LINE], predicted[32], time[32];
    knob_flags which = find_varying(row, rows);
    if (!rows)
        return;
    name_shape(report, shape, words, sizeof words);
    text_print(html, "<h3>The best at ");
    html_escape(html, words);
    text_print(html, "</h3>\n<table><tr><th>schedule</th><th>measured</th><th>predicted</th><th>TFLOP/s</th>"
                     "<th>registers</th><th>spilled</th><th>shared</th></tr>\n");
    for (int i = 0; i < rows; i++) {
        name_schedule(row[i], which, words, sizeof words);
        print_time(predicted, sizeof predicted, row[i]->predicted);
        print_time(time, sizeof time, row[i]->measured);
        text_print(html, "<tr><td>");
        html_escape(html, words);
        text_print(html, "</td><td>%s</td><td>%s</td><td>%.1f</td>", time, predicted,
                   row[i]->flops / time_of(row[i]) * 1e-12);
        if (row[i]->compiled)
            text_print(html, "<td>%d</td><td>%d</td>", row[i]->registers, row[i]->spill_bytes);
        else
            text_print(html, "<td></td><td></td>");
        text_print(html, "<td>%d</td></tr>\n", row[i]->shared_bytes);
    }
    text_print(html, "</table>\n");
}

/* --- the page ------------------------------------------------------------------------------------------------------- */

static void write_times(const struct report *report, struct text *html) {
    const char *name[REPORT_TIMES];
    double seconds[REPORT_TIMES];
    if (!report->times)
        return;
    for (int i = 0; i < report->times; i++) {
        name[i] = report->time[i].name;
        seconds[i] = report->time[i].seconds;
    }
    heading(html, 2, "Where the time went");
    svg_bars(html, name, seconds, "s", report->times);
}

void report_write(const struct report *report, struct text *html) {
    text_print(html, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    html_escape(html, report->title);
    text_print(html, "</title>\n<style>%s</style></head><body>\n", style);
    heading(html, 1, report->title);
    if (report->about[0])
        paragraph(html, report->about);
    if (!is_measured(report))
        paragraph(html, "All times are predictions of the model; nothing was measured.");
    if (report->problems && report->shapes) {
        write_winners(report, html);
        write_roofline(report, html);
        write_prediction(report, html);
    }
    for (int p = 0; p < report->problems && p < PROBLEMS_SHOWN; p++) {
        heading(html, 2, report->problem[p].name);
        for (int k = 0; k < report->shapes && k < MAPS_SHOWN; k++)
            write_best(report, p, k, html);
        write_maps(report, p, html);
        write_front(report, p, html);
    }
    if (report->problems > PROBLEMS_SHOWN)
        paragraph(html, "Further problems are in the table of winners only.");
    write_times(report, html);
    text_print(html, "</body></html>\n");
}
