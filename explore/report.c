#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_open(struct report *report, const char *title, const struct model_gpu *gpu, int family) {
    *report = (struct report){.gpu = *gpu, .family = family, .map_x = -1, .map_y = -1};
    snprintf(report->title, sizeof report->title, "%s", title);
}

void report_close(struct report *report) {
    free(report->problem);
    free(report->point);
    *report = (struct report){0};
}

int report_add_shape(struct report *report, const struct shape *shape) {
    for (int i = 0; i < report->shapes; i++)
        if (memcmp(&report->shape[i], shape, sizeof *shape) == 0)
            return i;
    if (report->shapes == REPORT_SHAPES)
        return -1;
    report->shape[report->shapes] = *shape;
    return report->shapes++;
}

/* Prints "bf16 d128 causal": the problem as a kernel's name has it. */
static void name_problem(const struct variant *variant, char *name, size_t size) {
    struct text text = {0};
    const struct knobs *k = &variant->knobs;
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(k, (enum knob_id)id);
        bool implied = (id == KNOB_dtype_out && value == k->dtype) || (id == KNOB_head_dim_v && value == k->head_dim) ||
                       (id == KNOB_dtype_kv && value == k->dtype) || (id == KNOB_score && value == score_scaled) ||
                       knob_is_open((enum knob_id)id, value);
        if (knob_table[id].group != KNOB_GROUP_PROBLEM || !(knob_in(variant->used, id)) || implied)
            continue;
        text_print(&text, "%s%s", text.size ? " " : "", knob_table[id].prefix);
        knob_print(k, (enum knob_id)id, &text);
    }
    snprintf(name, size, "%s", text_string(&text));
    text_free(&text);
}

int report_add_problem(struct report *report, const struct variant *variant) {
    for (int i = report->problems - 1; i >= 0; i--)
        if (knobs_same_problem(&report->problem[i].knobs, &variant->knobs))
            return i;
    if (report->problems == report->problem_room) {
        int room = 2 * report->problem_room + 8;
        struct report_problem *grown = realloc(report->problem, (size_t)room * sizeof *grown);
        if (!grown) {
            report->failed = true;
            return -1;
        }
        report->problem = grown;
        report->problem_room = room;
    }
    struct report_problem *problem = &report->problem[report->problems];
    problem->knobs = variant->knobs;
    name_problem(variant, problem->name, sizeof problem->name);
    return report->problems++;
}

struct report_point *report_find(struct report *report, const struct variant *variant, int shape) {
    for (int i = report->points - 1; i >= 0; i--) {
        struct report_point *point = &report->point[i];
        if (point->shape == shape && strcmp(point->name, variant->name) == 0 &&
            knobs_same_problem(&report->problem[point->problem].knobs, &variant->knobs))
            return point;
    }
    return NULL;
}

struct report_point *report_add(struct report *report, const struct variant *variant, int shape) {
    int problem = report_add_problem(report, variant);
    if (problem < 0 || shape < 0)
        return NULL;
    if (report->points == report->room) {
        int room = 2 * report->room + 256;
        struct report_point *grown = realloc(report->point, (size_t)room * sizeof *grown);
        if (!grown) {
            report->failed = true;
            return NULL;
        }
        report->point = grown;
        report->room = room;
    }
    struct report_point *point = &report->point[report->points++];
    struct model_terms terms;
    model_predict_once(&report->gpu, variant, &report->shape[shape], NULL, &terms);
    *point = (struct report_point){.problem = problem,
                                   .shape = shape,
                                   .predicted = terms.seconds,
                                   .flops = terms.flops,
                                   .bytes = terms.memory_bytes,
                                   .registers = -1,
                                   .spill_bytes = -1,
                                   .shared_bytes = variant->shared_bytes,
                                   .instructions = -1};
    memcpy(point->name, variant->name, sizeof point->name);
    for (int id = 0; id < KNOB_COUNT; id++)
        point->value[id] = knob_in(variant->used, id) ? knob_get(&variant->knobs, (enum knob_id)id) : AUTO;
    return point;
}

void report_add_time(struct report *report, const char *name, double seconds) {
    if (report->times == REPORT_TIMES)
        return;
    report->time[report->times].name = name;
    report->time[report->times++].seconds = seconds;
}
