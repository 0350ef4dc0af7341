/* space: a spec -> all schedules of its problems. One template at a time: the axes that the spec leaves open take the
   values of that template, and variant.c iterates over the combinations. Nothing is stored, so the size of a space is
   not limited. */
#include "template.h"

#include <stdlib.h>
#include <string.h>

static bool is_open(const struct spec *spec, int id) { return spec->axis[id].place.line == 0; }

static bool holds(const struct spec_axis *axis, int value) {
    for (int i = 0; i < axis->count; i++)
        if (axis->value[i] == value)
            return true;
    return false;
}

/* --- a problem as a spec ----------------------------------------------------------------------------------------- */

/* Makes the sizes in a problem its shape, if they suffice for one. */
static bool take_shape(struct spec *spec, const struct hints *hints) {
    struct shape shape = hints->shape;
    bool said = false;
    if (shape.len_kv < 0)
        shape.len_kv = shape.len_q;
    if (shape.len_q < 0)
        shape.len_q = shape.len_kv;
    for (int id = 0; id < SHAPE_COUNT; id++) {
        bool has = (shape_table[id].families & 1u << spec->family) != 0;
        said |= has && shape_get(&hints->shape, (enum shape_id)id) >= 0;
        if (shape_get(&shape, (enum shape_id)id) >= 0)
            continue;
        if (has && shape_table[id].fallback < 0)
            return true; /* not enough */
        shape_set(&shape, (enum shape_id)id, shape_table[id].fallback < 0 ? 0 : shape_table[id].fallback);
    }
    if (!said)
        return true;
    spec->shape = calloc(1, sizeof *spec->shape);
    spec->shape_place = calloc(1, sizeof *spec->shape_place);
    if (!spec->shape || !spec->shape_place)
        return false;
    spec->shape[spec->shapes++] = shape;
    return true;
}

struct spec *spec_from_knobs(const char *name, const char *text, struct diag *diag) {
    enum { LEFT_OUT = -2 };
    unsigned all = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    struct input input = {name, text, strlen(text)};
    struct knobs knobs = knobs_filled(LEFT_OUT);
    struct hints hints;
    if (!problem_parse(&input, all, &knobs, &hints, diag))
        return NULL;
    if (knobs.family < 0) {
        diag_error(diag, (struct place){&input, 1, 1},
                   "no family is named; expected family=NAME, as in "
                   "family=attention_forward");
        return NULL;
    }
    struct spec *spec = spec_read(name, "family: softmax\n", strlen("family: softmax\n"), diag);
    for (int id = 0; spec && id < KNOB_COUNT; id++) {
        int value = knob_get(&knobs, (enum knob_id)id);
        spec->axis[id].place.line = value != LEFT_OUT;
        spec->axis[id].value[0] = value != LEFT_OUT ? value : knob_table[id].fallback;
    }
    if (!spec)
        return NULL;
    spec->family = knobs.family;
    bool good = spec_take_formulas(spec, &knobs, diag);
    if (good && !take_shape(spec, &hints)) {
        diag_error(diag, (struct place){&spec->input, 0, 0}, "out of memory");
        good = false;
    }
    if (good)
        return spec;
    spec_free(spec);
    return NULL;
}

/* --- filling open axes --------------------------------------------------------------------------------------------- */

/* Writes the values of one open knob for a template to `value` and returns their number. */
static int fill(const struct space *space, const struct template *template, enum knob_id id, int *value) {
    const struct expr *list = template->tune[id];
    int count = 0;
    if (!(knob_in(template->used, id)) || (!list && !knob_table[id].words)) {
        value[count++] = id == KNOB_target ? target_any : knob_table[id].fallback;
        return count;
    }
    int items = list ? expr_items(list) : INT32_MAX;
    for (int i = 0; i < items && (list || knob_table[id].words[i]); i++) {
        value[count] = i;
        bool good = !list || template_tune_value(list, i, id, &value[count]);
        count += good && (id != KNOB_target || space->targets >> value[count] & 1);
    }
    return count;
}

static int room(const struct template *template, enum knob_id id) {
    int words = 1;
    while (knob_table[id].words && knob_table[id].words[words])
        words++;
    int listed = template->tune[id] ? expr_items(template->tune[id]) : 0;
    return words > listed ? words : listed;
}

/* Makes the spec for one row of templates.def; its own axes are borrowed, the filled ones are in space->values. */
static bool narrow(struct space *space, const struct template *template, const struct template_row *row) {
    size_t total = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        total += (size_t)room(template, (enum knob_id)id);
    free(space->values);
    int *value = space->values = calloc(total, sizeof *value);
    if (!value)
        return false;
    space->narrowed = *space->spec;
    for (int id = 0; id < KNOB_COUNT; id++) {
        struct spec_axis *axis = &space->narrowed.axis[id];
        bool fixed = id == KNOB_algorithm || (id == KNOB_loop_order && row->loop_order != ANY_LOOP_ORDER);
        if (!fixed && (!is_open(space->spec, id) || knob_table[id].group == KNOB_GROUP_PROBLEM || id == KNOB_family))
            continue;
        axis->value = value;
        if (fixed) {
            value[0] = id == KNOB_algorithm ? row->algorithm : row->loop_order;
            axis->count = 1;
        } else {
            axis->count = fill(space, template, (enum knob_id)id, value);
        }
        value += axis->count;
    }
    return true;
}

/* --- the space ----------------------------------------------------------------------------------------------------- */

static bool asked_for(const struct spec *spec, const struct template_row *row) {
    const struct spec_axis *algorithm = &spec->axis[KNOB_algorithm], *order = &spec->axis[KNOB_loop_order];
    return row->family == spec->family &&
           (is_open(spec, KNOB_algorithm) || holds(algorithm, row->algorithm) || holds(algorithm, AUTO)) &&
           (row->loop_order == ANY_LOOP_ORDER || is_open(spec, KNOB_loop_order) || holds(order, row->loop_order));
}

/* Advances to the next template that the spec allows. */
static bool next_template(struct space *space) {
    while (space->row < template_row_count) {
        const struct template_row *row = &template_rows[space->row++], *found;
        char reason[VARIANT_REASON];
        struct knobs knobs = knobs_default();
        knobs.family = row->family;
        knobs.algorithm = row->algorithm;
        knobs.loop_order = row->loop_order == ANY_LOOP_ORDER ? AUTO : row->loop_order;
        const struct template *template =
            asked_for(space->spec, row) ? template_find(space->set, &knobs, &found, reason, sizeof reason) : NULL;
        if (!template)
            continue;
        if (!narrow(space, template, row)) {
            space->failed = true;
            return false;
        }
        if (space->narrowed.axis[KNOB_target].count == 0)
            continue;
        variants_open(&space->variants, &space->narrowed, space->set);
        return true;
    }
    return false;
}

void space_open(struct space *space, const struct spec *spec, const struct template_set *set, unsigned targets) {
    *space = (struct space){.set = set, .spec = spec, .targets = targets};
}

bool space_next(struct space *space, struct variant *variant) {
    for (;;) {
        if (space->open && variants_next(&space->variants, variant))
            return true;
        space->open = !space->failed && next_template(space);
        if (!space->open)
            return false;
    }
}

void space_close(struct space *space) {
    free(space->values);
    *space = (struct space){0};
}
