/* tuned_read: YAML text -> struct tuned. As for specs, every error is found in one pass and stands at its own place. */
#include "formulas.h"
#include "knob_text.h"
#include "spec_test.h"
#include "tuned.h"
#include "yaml_reader.h"

#include <stdlib.h>
#include <string.h>

enum { TUNED_BYTES = 1 << 20, TUNED_EVENTS = 200000 };

struct reader {
    struct tuned *tuned;
    struct diag *diag;
    int errors_before;
    struct knobs problem; /* that the shapes being read belong to */
};

typedef void key_reader(struct reader *reader, const struct node *value, void *result);

/* A map with keys of a closed list; `result` is for the readers. */
struct key {
    const char *name;
    bool required;
    key_reader *read;
};

static bool enough(const struct reader *reader) { return reader->diag->errors - reader->errors_before >= DIAG_LIMIT; }

static bool expect(struct reader *reader, const struct node *value, enum node_kind kind, const char *what) {
    static const char *const wanted[] = {"a single value", "a list", "a map"};
    if (value->kind == kind && (kind != NODE_SCALAR || value->size > 0))
        return true;
    diag_error(reader->diag, value->place, "%s takes %s, found %s", what, wanted[kind],
               value->kind == NODE_SCALAR && value->size == 0 ? "nothing" : node_kind_name(value));
    return false;
}

static void refuse_key(struct reader *reader, const struct node *key, const struct key *keys, int count,
                       const char *what) {
    const char *names[8] = {0};
    for (int i = 0; i < count; i++)
        names[i] = keys[i].name;
    key_refuse(key->text, key->size, what, names, key->place, reader->diag);
}

static void read_keys(struct reader *reader, const struct node *map, const struct key *keys, int count,
                      const char *what, void *result) {
    unsigned seen = 0;
    if (!expect(reader, map, NODE_MAP, what))
        return;
    for (const struct node *key = map->first; key && !enough(reader); key = key->next->next) {
        int i = 0;
        while (i < count && strcmp(keys[i].name, key->text) != 0)
            i++;
        if (i == count) {
            refuse_key(reader, key, keys, count, what);
            continue;
        }
        if (!(seen >> i & 1)) /* a second one is already reported */
            keys[i].read(reader, key->next, result);
        seen |= 1u << i;
    }
    for (int i = 0; i < count; i++)
        if (keys[i].required && !(seen >> i & 1))
            diag_error(reader->diag, map->place, "%s needs the key '%s'", what, keys[i].name);
}

/* --- values ---------------------------------------------------------------------------------------------------- */

static void read_text(struct reader *reader, const struct node *value, char **result, const char *what) {
    if (!expect(reader, value, NODE_SCALAR, what))
        return;
    char *copy = strdup(value->text);
    if (!copy)
        diag_error(reader->diag, value->place, "out of memory");
    free(*result);
    *result = copy;
}

/* Digits, perhaps a point and more digits: no sign, no exponent. */
static void read_decimal(struct reader *reader, const struct node *value, double *result, const char *what) {
    if (!expect(reader, value, NODE_SCALAR, what))
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

/* Knobs of `groups`, and the knob `extra` whatever its group (-1: none), onto `knobs`. */
static void read_knobs(struct reader *reader, const struct node *map, unsigned groups, int extra, const char *what,
                       struct knobs *knobs) {
    struct formula_texts formulas = {0};
    if (!expect(reader, map, NODE_MAP, what))
        return;
    for (const struct node *key = map->first; key && !enough(reader); key = key->next->next) {
        const struct node *item = key->next;
        const struct formula_text text = {item->text, item->size, item->place};
        if (groups >> KNOB_GROUP_PROBLEM & 1 && strcmp(key->text, "params") == 0) {
            if (expect(reader, item, NODE_SCALAR, "params"))
                formulas.params = text;
            continue;
        }
        int value, id = knob_name_read(key->text, key->size, groups, key->place, reader->diag);
        if (id < 0 || !expect(reader, item, NODE_SCALAR, knob_table[id].name))
            continue;
        if (!(groups >> knob_table[id].group & 1) && id != extra)
            diag_error(reader->diag, key->place, "%s does not belong to %s", knob_table[id].name, what);
        else if (knob_value_read((enum knob_id)id, item->text, item->size, item->place, reader->diag, &value))
            knob_set(knobs, (enum knob_id)id, value);
        if (knob_table[id].kind == KNOB_KIND_FORMULA)
            *(id == KNOB_mask ? &formulas.mask : &formulas.score) = text;
    }
    formulas_read(&formulas, knobs, reader->diag);
}

static void need_family(struct reader *reader, const struct node *map, const char *what) {
    if (map->kind != NODE_MAP)
        return; /* already reported */
    for (const struct node *key = map->first; key; key = key->next->next)
        if (strcmp(key->text, "family") == 0)
            return;
    diag_error(reader->diag, map->place, "%s needs the key 'family'", what);
}

/* --- rows ------------------------------------------------------------------------------------------------------ */

static void read_row_shape(struct reader *reader, const struct node *value, void *result) {
    struct tuned_row *row = result;
    struct shape shape;
    row->line = value->place.line;
    if (reader->problem.family >= 0 && spec_shape_read(value, reader->problem.family, &shape, reader->diag))
        row->shape = tuned_shape(&shape);
}

static void read_row_schedule(struct reader *reader, const struct node *value, void *result) {
    read_knobs(reader, value, 1u << KNOB_GROUP_SCHEDULE, KNOB_target, "a schedule",
               &((struct tuned_row *)result)->schedule);
}

static void read_microseconds(struct reader *reader, const struct node *value, void *result) {
    read_decimal(reader, value, &((struct tuned_row *)result)->microseconds, "microseconds");
}

static void read_margin(struct reader *reader, const struct node *value, void *result) {
    read_decimal(reader, value, &((struct tuned_row *)result)->margin, "margin");
}

static void read_row(struct reader *reader, const struct node *map) {
    static const struct key keys[] = {{"shape", true, read_row_shape},
                                      {"schedule", true, read_row_schedule},
                                      {"microseconds", false, read_microseconds},
                                      {"margin", false, read_margin}};
    struct tuned_row row = {.problem = reader->problem, .schedule = knobs_filled(AUTO)};
    int rows = reader->tuned->rows, errors = reader->diag->errors;
    read_keys(reader, map, keys, sizeof keys / sizeof *keys, "a row", &row);
    if (reader->diag->errors != errors || reader->problem.family < 0)
        return;
    if (!tuned_put(reader->tuned, &row))
        diag_error(reader->diag, map->place, "out of memory");
    else if (reader->tuned->rows == rows)
        diag_error(reader->diag, map->place, "this problem has a row for this shape already");
}

static void read_problem(struct reader *reader, const struct node *value, void *result) {
    struct knobs knobs = knobs_default();
    (void)result;
    read_knobs(reader, value, 1u << KNOB_GROUP_PROBLEM, KNOB_family, "a problem", &knobs);
    need_family(reader, value, "a problem");
    reader->problem = tuned_problem(&knobs);
}

static void keep_shapes(struct reader *reader, const struct node *value, void *result) {
    (void)reader; /* they are read once the problem is known */
    *(const struct node **)result = value;
}

static void read_entry(struct reader *reader, const struct node *map) {
    static const struct key keys[] = {{"problem", true, read_problem}, {"shapes", true, keep_shapes}};
    const struct node *shapes = NULL;
    reader->problem = knobs_filled(AUTO);
    read_keys(reader, map, keys, sizeof keys / sizeof *keys, "an entry of best", &shapes);
    if (!shapes || !expect(reader, shapes, NODE_LIST, "shapes"))
        return;
    for (const struct node *row = shapes->first; row && !enough(reader); row = row->next)
        read_row(reader, row);
}

/* --- denials --------------------------------------------------------------------------------------------------- */

static void read_variant(struct reader *reader, const struct node *value, void *result) {
    struct tuned_denial *denial = result;
    unsigned all = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    denial->line = value->place.line;
    read_knobs(reader, value, all, -1, "a variant", &denial->knobs);
    need_family(reader, value, "a variant");
}

static void read_version(struct reader *reader, const struct node *value, void *result) {
    read_text(reader, value, &((struct tuned_denial *)result)->version, "version");
}

static void read_because(struct reader *reader, const struct node *value, void *result) {
    read_text(reader, value, &((struct tuned_denial *)result)->because, "because");
}

static void read_denial(struct reader *reader, const struct node *map) {
    static const struct key keys[] = {
        {"variant", true, read_variant}, {"version", false, read_version}, {"because", true, read_because}};
    struct tuned *tuned = reader->tuned;
    struct tuned_denial *denials = realloc(tuned->denial, ((size_t)tuned->denials + 1) * sizeof *denials);
    if (!denials) {
        diag_error(reader->diag, map->place, "out of memory");
        return;
    }
    tuned->denial = denials;
    denials[tuned->denials] = (struct tuned_denial){.knobs = knobs_filled(AUTO)};
    read_keys(reader, map, keys, sizeof keys / sizeof *keys, "a denial", &denials[tuned->denials++]);
}

/* --- the file -------------------------------------------------------------------------------------------------- */

static void read_device(struct reader *reader, const struct node *value, void *result) {
    read_text(reader, value, &((struct tuned *)result)->device, "device");
}

static void read_measured(struct reader *reader, const struct node *value, void *result) {
    read_text(reader, value, &((struct tuned *)result)->measured, "measured");
}

static void read_best(struct reader *reader, const struct node *value, void *result) {
    (void)result;
    if (expect(reader, value, NODE_LIST, "best"))
        for (const struct node *entry = value->first; entry && !enough(reader); entry = entry->next)
            read_entry(reader, entry);
}

static void read_deny(struct reader *reader, const struct node *value, void *result) {
    (void)result;
    if (expect(reader, value, NODE_LIST, "deny"))
        for (const struct node *entry = value->first; entry && !enough(reader); entry = entry->next)
            read_denial(reader, entry);
}

struct tuned *tuned_read(const char *name, const char *text, size_t size, struct diag *diag) {
    static const struct yaml_kind kind = {"tuned table", "device: NAME", TUNED_BYTES, TUNED_EVENTS};
    static const struct key keys[] = {{"device", true, read_device},
                                      {"measured", false, read_measured},
                                      {"best", false, read_best},
                                      {"deny", false, read_deny}};
    struct input input = {name, text, size};
    struct reader reader = {.tuned = tuned_new(name, "", ""), .diag = diag, .errors_before = diag->errors};
    if (!reader.tuned) {
        diag_error(diag, (struct place){0}, "out of memory");
        return NULL;
    }
    struct node *root = yaml_tree_read(&input, &kind, diag);
    if (root)
        read_keys(&reader, root, keys, sizeof keys / sizeof *keys, "a tuned table", reader.tuned);
    yaml_tree_free(root);
    if (root && diag->errors == reader.errors_before)
        return reader.tuned;
    tuned_free(reader.tuned);
    return NULL;
}
