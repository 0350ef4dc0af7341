/* tuned_read: YAML text -> struct tuned. As for specs, one pass finds all errors and reports each at its own place. */
#include "spec_test.h"
#include "table_read.h"
#include "tuned.h"

#include <stdlib.h>
#include <string.h>

enum { TUNED_BYTES = 1 << 20, TUNED_EVENTS = 200000 };

/* Reads digits, optionally with a point and more digits: no sign, no exponent. */
static void read_decimal(struct table_reader *reader, const struct node *value, double *result, const char *what) {
    if (!table_expect(reader, value, NODE_SCALAR, what))
        return;
    double number = 0, unit = 1;
    bool point = false, good = value->size <= 18 && value->text[0] != '.' && value->text[value->size - 1] != '.';
    for (const char *at = value->text; good && *at; at++) {
        if (*at == '.' && !point)
            point = true;
        else if (*at >= '0' && *at <= '9')
            number = number * 10 + (*at - '0'), unit *= point ? 10 : 1;
        else
            good = false;
    }
    if (!good)
        diag_error(reader->diag, value->place, "%s must be a number such as 12.5, found '%s'", what,
                   shown(value->text, value->size).text);
    *result = number / unit;
}

static void need_family(struct table_reader *reader, const struct node *map, const char *what) {
    if (map->kind != NODE_MAP)
        return; /* already reported */
    for (const struct node *key = map->first; key; key = key->next->next)
        if (strcmp(key->text, "family") == 0)
            return;
    diag_error(reader->diag, map->place, "%s needs the key 'family'", what);
}

/* --- rows ------------------------------------------------------------------------------------------------------ */

static void read_row_shape(struct table_reader *reader, const struct node *value, void *result) {
    struct tuned_row *row = result;
    struct shape shape;
    row->line = value->place.line;
    if (reader->problem.family >= 0 && spec_shape_read(value, reader->problem.family, &shape, reader->diag))
        row->shape = tuned_shape(&shape);
}

static void read_row_schedule(struct table_reader *reader, const struct node *value, void *result) {
    table_knobs(reader, value, 1u << KNOB_GROUP_SCHEDULE, KNOB_target, "a schedule",
                &((struct tuned_row *)result)->schedule);
}

static void read_microseconds(struct table_reader *reader, const struct node *value, void *result) {
    read_decimal(reader, value, &((struct tuned_row *)result)->microseconds, "microseconds");
}

static void read_margin(struct table_reader *reader, const struct node *value, void *result) {
    read_decimal(reader, value, &((struct tuned_row *)result)->margin, "margin");
}

static void read_row(struct table_reader *reader, const struct node *map) {
    static const struct table_key keys[] = {{"shape", true, read_row_shape},
                                            {"schedule", true, read_row_schedule},
                                            {"microseconds", false, read_microseconds},
                                            {"margin", false, read_margin}};
    struct tuned_row row = {.problem = reader->problem, .schedule = knobs_filled(AUTO)};
    int rows = reader->tuned->rows, errors = reader->diag->errors;
    table_keys(reader, map, keys, sizeof keys / sizeof *keys, "a row", &row);
    if (reader->diag->errors != errors || reader->problem.family < 0)
        return;
    if (!tuned_put(reader->tuned, &row))
        diag_error(reader->diag, map->place, "out of memory");
    else if (reader->tuned->rows == rows)
        diag_error(reader->diag, map->place, "this problem has a row for this shape and target already");
}

static void read_problem(struct table_reader *reader, const struct node *value, void *result) {
    struct knobs knobs = knobs_default();
    (void)result;
    table_knobs(reader, value, 1u << KNOB_GROUP_PROBLEM, KNOB_family, "a problem", &knobs);
    need_family(reader, value, "a problem");
    reader->problem = tuned_problem(&knobs);
}

static void keep_shapes(struct table_reader *reader, const struct node *value, void *result) {
    (void)reader; /* they are read once the problem is known */
    *(const struct node **)result = value;
}

static void read_entry(struct table_reader *reader, const struct node *map) {
    static const struct table_key keys[] = {{"problem", true, read_problem}, {"shapes", true, keep_shapes}};
    const struct node *shapes = NULL;
    reader->problem = knobs_filled(AUTO);
    table_keys(reader, map, keys, sizeof keys / sizeof *keys, "an entry of best", &shapes);
    if (!shapes || !table_expect(reader, shapes, NODE_LIST, "shapes"))
        return;
    for (const struct node *row = shapes->first; row && !table_enough(reader); row = row->next)
        read_row(reader, row);
}

/* --- denials --------------------------------------------------------------------------------------------------- */

static void read_variant(struct table_reader *reader, const struct node *value, void *result) {
    struct tuned_denial *denial = result;
    unsigned all = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    denial->line = value->place.line;
    table_knobs(reader, value, all, -1, "a variant", &denial->knobs);
    need_family(reader, value, "a variant");
}

static void read_version(struct table_reader *reader, const struct node *value, void *result) {
    table_text(reader, value, &((struct tuned_denial *)result)->version, "version");
}

static void read_because(struct table_reader *reader, const struct node *value, void *result) {
    table_text(reader, value, &((struct tuned_denial *)result)->because, "because");
}

static void read_denial(struct table_reader *reader, const struct node *map) {
    static const struct table_key keys[] = {
        {"variant", true, read_variant}, {"version", false, read_version}, {"because", true, read_because}};
    struct tuned *tuned = reader->tuned;
    struct tuned_denial *denials = realloc(tuned->denial, ((size_t)tuned->denials + 1) * sizeof *denials);
    if (!denials) {
        diag_error(reader->diag, map->place, "out of memory");
        return;
    }
    tuned->denial = denials;
    denials[tuned->denials] = (struct tuned_denial){.knobs = knobs_filled(AUTO)};
    table_keys(reader, map, keys, sizeof keys / sizeof *keys, "a denial", &denials[tuned->denials++]);
}

/* --- the file -------------------------------------------------------------------------------------------------- */

static void read_device(struct table_reader *reader, const struct node *value, void *result) {
    table_text(reader, value, &((struct tuned *)result)->device, "device");
}

static void read_measured(struct table_reader *reader, const struct node *value, void *result) {
    table_text(reader, value, &((struct tuned *)result)->measured, "measured");
}

static void read_lock(struct table_reader *reader, const struct node *value, void *result) {
    char **lock = &((struct tuned *)result)->lock;
    table_text(reader, value, lock, "lock");
    if (*lock && strcmp(*lock, GEN_VERSION) != 0)
        diag_error(reader->diag, value->place,
                   "this lock file is for attile %s and this is attile " GEN_VERSION
                   ", whose kernels may be others; make it again with `attile tune --lock`",
                   shown(*lock, strlen(*lock)).text);
}

static void read_best(struct table_reader *reader, const struct node *value, void *result) {
    (void)result;
    if (table_expect(reader, value, NODE_LIST, "best"))
        for (const struct node *entry = value->first; entry && !table_enough(reader); entry = entry->next)
            read_entry(reader, entry);
}

static void read_deny(struct table_reader *reader, const struct node *value, void *result) {
    (void)result;
    if (table_expect(reader, value, NODE_LIST, "deny"))
        for (const struct node *entry = value->first; entry && !table_enough(reader); entry = entry->next)
            read_denial(reader, entry);
}

/* A schedule with an open algorithm or target pins nothing. */
static void check_locked(const struct table_reader *reader, const struct node *root) {
    const struct tuned *tuned = reader->tuned;
    for (int i = 0; i < tuned->rows; i++) {
        const struct knobs *schedule = &tuned->row[i].schedule;
        if (schedule->algorithm == AUTO || schedule->target == AUTO)
            diag_error(reader->diag, (struct place){root->place.input, tuned->row[i].line, 1},
                       "a schedule of a lock file needs '%s': it names every knob",
                       schedule->algorithm == AUTO ? "algorithm" : "target");
    }
}

struct tuned *tuned_read(const char *name, const char *text, size_t size, struct diag *diag) {
    static const struct yaml_kind kind = {"tuned table", "device: NAME", TUNED_BYTES, TUNED_EVENTS};
    static const struct table_key keys[] = {{"device", true, read_device},
                                            {"measured", false, read_measured},
                                            {"lock", false, read_lock},
                                            {"best", false, read_best},
                                            {"deny", false, read_deny}};
    struct input input = {name, text, size};
    struct table_reader reader = {.tuned = tuned_new(name, "", ""), .diag = diag, .errors_before = diag->errors};
    if (!reader.tuned) {
        diag_error(diag, (struct place){0}, "out of memory");
        return NULL;
    }
    struct node *root = yaml_tree_read(&input, &kind, diag);
    if (root)
        table_keys(&reader, root, keys, sizeof keys / sizeof *keys, "a tuned table", reader.tuned);
    if (root && reader.tuned->lock)
        check_locked(&reader, root);
    yaml_tree_free(root);
    if (root && diag->errors == reader.errors_before)
        return reader.tuned;
    tuned_free(reader.tuned);
    return NULL;
}
