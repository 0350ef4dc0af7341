/* report_results: reads lines of a results file into points of a report. */
#include "journal.h"
#include "report.h"
#include "winners.h"

#include <string.h>

struct reading {
    struct report *report;
    const struct template_set *set;
    bool known_only;
    struct report_results *results;
};

static bool is_known(struct report *report, const struct variant *variant) {
    int problems = report->problems;
    int found = report_add_problem(report, variant);
    bool known = found >= 0 && found < problems;
    report->problems = problems; /* undo the addition */
    return known;
}

static int find_shape(struct reading *reading, const struct shape *shape) {
    int shapes = reading->report->shapes;
    int found = report_add_shape(reading->report, shape);
    if (found < shapes || !reading->known_only)
        return found;
    reading->report->shapes = shapes; /* undo the addition */
    return -1;
}

static void note(struct report_point *point, const struct record *record) {
    if (record->cold_median > 0) {
        point->measured = (point->measured * point->measurements + record->cold_median) / (point->measurements + 1);
        point->measurements++;
    }
    if (record->registers >= 0 && !point->compiled) {
        point->compiled = true;
        point->registers = (int)record->registers;
        point->spill_bytes = (int)record->spill_bytes;
        point->shared_bytes = (int)record->shared_bytes;
        point->compile_seconds = record->compile_seconds > 0 ? record->compile_seconds : 0;
    }
}

static void take(void *context, const struct record *record) {
    struct reading *reading = context;
    struct report *report = reading->report;
    struct variant variant;
    struct shape shape;
    if (strcmp(record->device, report->gpu.name) != 0) {
        reading->results->foreign++;
        return;
    }
    if (!record_ok(record)) {
        reading->results->failed++;
        return;
    }
    if (!winners_read_variant(reading->set, record, &variant) ||
        !winners_read_shape(record->shape, variant.knobs.family, &shape)) {
        reading->results->unknown++;
        return;
    }
    if (variant.knobs.family != report->family || (reading->known_only && !is_known(report, &variant)))
        return;
    if (shape.kv_heads == 0)
        shape.kv_heads = shape.heads;
    int at = find_shape(reading, &shape);
    struct report_point *point = at < 0 ? NULL : report_find(report, &variant, at);
    if (at >= 0 && !point)
        point = report_add(report, &variant, at);
    if (!point)
        return;
    note(point, record);
    reading->results->compile_seconds += record->compile_seconds > 0 ? record->compile_seconds : 0;
    if (record->cold_median > 0 && record->cold_samples > 0)
        reading->results->launch_seconds += record->cold_median * (double)record->cold_samples;
    reading->results->used++;
}

bool report_read_results(struct report *report, const struct template_set *set, const char *path, bool known_only,
                         struct report_results *results, struct text *error) {
    struct reading reading = {report, set, known_only, results};
    int strange = 0;
    *results = (struct report_results){0};
    bool good = journal_read_file(path, take, &reading, &strange, error);
    results->unknown += strange;
    return good;
}
