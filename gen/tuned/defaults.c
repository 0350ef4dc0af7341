#include "defaults.h"
#include "expr.h"
#include "table_read.h"

#include <stdlib.h>
#include <string.h>

/* --- rows -------------------------------------------------------------------------------------------------------- */

static void read_name(struct table_reader *reader, const struct node *value, void *result) {
    struct default_row *row = result;
    table_text(reader, value, &row->name, "name");
    for (const struct default_row *other = reader->defaults->row; row->name && other < row; other++)
        if (other->name && strcmp(other->name, row->name) == 0)
            diag_error(reader->diag, value->place, "the row on line %d has this name already", other->place.line);
}

static void read_when(struct table_reader *reader, const struct node *value, void *result) {
    struct default_row *row = result;
    if (!table_expect(reader, value, NODE_SCALAR, "when"))
        return;
    if (!value->raw) {
        diag_error(reader->diag, value->place, "write this condition on one line, without escapes");
        return;
    }
    struct place place = {&reader->defaults->input, value->place.line, value->raw_col};
    row->when = expr_parse(place, value->raw, value->size, NULL, EXPR_BOOL, reader->scope, reader->diag);
    knob_flags asked = row->when ? expr_knobs(row->when) : 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_in(asked, id) && knob_table[id].group == KNOB_GROUP_SCHEDULE)
            diag_error(reader->diag, expr_place(row->when),
                       "a condition asks for knobs of the problem, target and facts, and %s belongs to the schedule",
                       knob_table[id].name);
    reader->defaults->asked |= asked;
}

static knob_flags given_by(const struct knobs *knobs) {
    knob_flags given = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        given |= knob_get(knobs, (enum knob_id)id) == AUTO ? 0 : KNOB_FLAG(id);
    return given;
}

static void read_schedule(struct table_reader *reader, const struct node *value, void *result) {
    struct defaults *defaults = reader->defaults;
    struct default_row *row = result;
    int errors = reader->diag->errors;
    table_knobs(reader, value, 1u << KNOB_GROUP_SCHEDULE, -1, "a schedule", &row->schedule);
    if (reader->diag->errors != errors)
        return;
    knob_flags given = given_by(&row->schedule);
    if (!defaults->given)
        defaults->given = given;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_in(given, id) && (id == KNOB_algorithm || id == KNOB_loop_order))
            diag_error(reader->diag, value->place, "%s chooses the template and has no default", knob_table[id].name);
        else if (knob_in(given, id) != knob_in(defaults->given, id))
            diag_error(reader->diag, value->place,
                       "every row gives the same knobs: this one %s %s, and those before %s",
                       knob_in(given, id) ? "gives" : "leaves out", knob_table[id].name,
                       knob_in(given, id) ? "do not" : "give it");
}

static void read_because(struct table_reader *reader, const struct node *value, void *result) {
    table_text(reader, value, &((struct default_row *)result)->because, "because");
}

/* Checks that every problem has a default and every row can be chosen. */
static void check_end(struct table_reader *reader, const struct node *map, bool conditional) {
    if (conditional && !map->next)
        diag_error(reader->diag, map->place,
                   "problems that fit no row have no default; the last row is for them, and has no 'when'");
    else if (!conditional && map->next)
        diag_error(reader->diag, map->next->place,
                   "the row before, which has no 'when', leaves no problem for this one");
}

static void read_row(struct table_reader *reader, const struct node *map) {
    static const struct table_key keys[] = {{"name", true, read_name},
                                            {"when", false, read_when},
                                            {"schedule", true, read_schedule},
                                            {"because", false, read_because}};
    struct defaults *defaults = reader->defaults;
    struct default_row *row = &defaults->row[defaults->rows++];
    int errors = reader->diag->errors;
    *row = (struct default_row){.schedule = knobs_filled(AUTO), .place = map->place};
    row->place.input = &defaults->input;
    table_keys(reader, map, keys, sizeof keys / sizeof *keys, "a row", row);
    if (reader->diag->errors == errors)
        check_end(reader, map, row->when != NULL);
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static void read_rows(struct table_reader *reader, const struct node *value, void *result) {
    (void)result;
    if (!table_expect(reader, value, NODE_LIST, "defaults"))
        return;
    if (!value->first) {
        diag_error(reader->diag, value->place, "expected a row: a table without rows has no default for any problem");
        return;
    }
    reader->defaults->row = calloc((size_t)value->children, sizeof *reader->defaults->row);
    if (!reader->defaults->row)
        diag_error(reader->diag, value->place, "out of memory");
    for (const struct node *row = value->first; reader->defaults->row && row && !table_enough(reader); row = row->next)
        read_row(reader, row);
}

struct defaults *defaults_read(const char *name, const char *text, size_t size, const struct expr_scope *scope,
                               struct diag *diag) {
    static const struct yaml_kind kind = {"table of defaults", "defaults:", YAML_BYTES, YAML_EVENTS};
    static const struct table_key keys[] = {{"defaults", true, read_rows}};
    struct defaults *defaults = calloc(1, sizeof *defaults);
    struct table_reader reader = {.diag = diag,
                                  .errors_before = diag->errors,
                                  .defaults = defaults,
                                  .scope = scope,
                                  .problem = knobs_filled(AUTO)};
    if (!defaults || !(defaults->name = strdup(name))) {
        diag_error(diag, (struct place){0}, "out of memory");
        free(defaults);
        return NULL;
    }
    defaults->input = (struct input){defaults->name, text, size};
    struct node *root = yaml_tree_read(&defaults->input, &kind, diag);
    if (root)
        table_keys(&reader, root, keys, sizeof keys / sizeof *keys, "a table of defaults", NULL);
    yaml_tree_free(root);
    if (root && diag->errors == reader.errors_before)
        return defaults;
    defaults_free(defaults);
    return NULL;
}

void defaults_free(struct defaults *defaults) {
    if (!defaults)
        return;
    for (int i = 0; i < defaults->rows; i++) {
        free(defaults->row[i].name);
        free(defaults->row[i].because);
        expr_free(defaults->row[i].when);
    }
    free(defaults->row);
    free(defaults->name);
    free(defaults);
}

const struct default_row *defaults_find(const struct defaults *defaults, const struct expr_env *env,
                                        struct expr_fault *fault) {
    for (const struct default_row *row = defaults->row;; row++) {
        int64_t holds = 1;
        if (row->when && !expr_eval(row->when, env, &holds, fault))
            return NULL;
        if (holds) /* the last row does */
            return row;
    }
}
