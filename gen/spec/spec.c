/* spec: YAML text -> struct spec. yaml_reader gives the tree; this file knows the keys: which exist, what type each
   has, which belong together. It finds all errors in one pass and reports each at its own place. */
#include "expr.h"
#include "formulas.h"
#include "gen.h"
#include "knob_text.h"
#include "spec_test.h"
#include "yaml_reader.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct spec *spec;
    struct diag *diag;
    int errors_before;
};

typedef void key_reader(struct reader *reader, const struct node *key, const struct node *value);

/* --- helpers --------------------------------------------------------------------------------------------------- */

/* True if further errors would not be shown, so the search can stop. */
static bool enough(const struct reader *reader) { return reader->diag->errors - reader->errors_before >= DIAG_LIMIT; }

static bool expect(struct reader *reader, const struct node *key, const struct node *value, enum node_kind kind) {
    static const char *const wanted[] = {"a single value", "a list", "a map of keys"};
    if (value->kind == kind && (kind != NODE_SCALAR || value->size > 0))
        return true;
    bool nothing = value->kind == NODE_SCALAR && value->size == 0;
    diag_error(reader->diag, value->place, "%s takes %s, found %s", key->text, wanted[kind],
               nothing ? "nothing" : node_kind_name(value));
    return false;
}

static char *copy_text(struct reader *reader, const struct node *node) {
    char *copy = malloc(node->size + 1);
    if (!copy) {
        diag_error(reader->diag, node->place, "out of memory");
        return NULL;
    }
    memcpy(copy, node->text, node->size + 1);
    return copy;
}

/* --- axes ------------------------------------------------------------------------------------------------------ */

static const struct {
    int family, algorithm;
} known_algorithms[] = {
#define TEMPLATE(family, algorithm, loop_order, file) {family_##family, algorithm_##algorithm},
#include "templates.def"
};

static bool family_has(int family, int algorithm) {
    for (size_t i = 0; i < sizeof known_algorithms / sizeof *known_algorithms; i++)
        if (known_algorithms[i].family == family && known_algorithms[i].algorithm == algorithm)
            return true;
    return false;
}

static void check_algorithm(struct reader *reader, const struct node *item, int algorithm) {
    int family = reader->spec->family;
    if (family < 0 || family_has(family, algorithm))
        return;
    const char *words[sizeof known_algorithms / sizeof *known_algorithms + 1];
    int count = 0;
    for (int i = 0; knob_table[KNOB_algorithm].words[i]; i++)
        if (family_has(family, i))
            words[count++] = knob_table[KNOB_algorithm].words[i];
    words[count] = NULL;
    struct text choices = {0};
    text_choices(&choices, words);
    diag_error(reader->diag, item->place, "%s is not an algorithm of %s, which has %s",
               knob_word_name(KNOB_algorithm, algorithm), knob_word_name(KNOB_family, family), text_string(&choices));
    text_free(&choices);
}

static struct place text_place(const struct node *item) {
    return item->raw ? (struct place){item->place.input, item->place.line, item->raw_col} : item->place;
}

/* Keeps the canonical text of a knob, unless it is empty: then *value is a word with the same meaning. Otherwise adds
   the number of the text in the spec to *value, the last word. Takes the text. False after an error. */
static bool keep_text(struct spec *spec, enum knob_id id, struct text *text, unsigned params, struct place place,
                      int *value, struct diag *diag) {
    int number = 0;
    while (number < spec->formulas && text->size && strcmp(spec->formula[number].text, text->bytes) != 0)
        number++;
    *value += text->size ? number : 0;
    bool fits = text->size < FORMULAS_TEXT, good = fits && !text->failed;
    if (good && text->size && number == spec->formulas) {
        struct spec_formula *grown = realloc(spec->formula, ((size_t)number + 1) * sizeof *grown);
        good = grown != NULL;
        if (good) {
            spec->formula = grown;
            grown[spec->formulas++] = (struct spec_formula){text->bytes, params, place};
            *text = (struct text){0};
        }
    }
    if (!fits)
        diag_error(diag, place, "the %s has %zu letters in its shortest form, expected less than %d",
                   knob_table[id].name, text->size, FORMULAS_TEXT);
    else if (!good)
        diag_error(diag, place, "out of memory");
    text_free(text);
    return good;
}

/* Keeps a list of gradients; its word is wants_inputs or wants_custom_wants. */
static bool keep_wants(struct spec *spec, const struct wants *wants, struct place place, int *value,
                       struct diag *diag) {
    struct text text = {0};
    wants_print(wants, &spec->params, &text);
    *value = text.size ? wants_custom_wants : wants_inputs;
    return keep_text(spec, KNOB_wants, &text, 0, place, value, diag);
}

static bool read_formula(struct spec *spec, enum knob_id id, struct formula_text source, int *value,
                         struct diag *diag) {
    struct wants wants;
    if (id == KNOB_wants)
        return wants_read(&wants, source, &spec->params, diag) && keep_wants(spec, &wants, source.place, value, diag);
    struct formula *formula = formula_parse(id == KNOB_mask ? FORMULA_MASK : FORMULA_SCORE, source.place, source.text,
                                            source.size, &spec->params, diag);
    struct text text = {0};
    if (formula)
        *value = formulas_canonical(id, formula, &text);
    bool good =
        formula && keep_text(spec, id, &text, formulas_params(&spec->params, formula), source.place, value, diag);
    formula_free(formula);
    return good;
}

bool spec_take_formulas(struct spec *spec, const struct knobs *knobs, struct diag *diag) {
    static const enum knob_id ids[] = {KNOB_mask, KNOB_score, KNOB_wants};
    const struct formula_text params = {.text = knobs->formulas.params, .size = strlen(knobs->formulas.params)};
    bool good = formulas_declare(&spec->params, params, diag);
    for (size_t i = 0; good && i < sizeof ids / sizeof *ids; i++) {
        const char *text = knob_formula(knobs, ids[i]);
        struct formula_text source = {.text = text, .size = text ? strlen(text) : 0};
        good = !text || read_formula(spec, ids[i], source, &spec->axis[ids[i]].value[0], diag);
    }
    return good;
}

/* Reads a list of gradients, each at its own place. */
static bool read_wants(struct reader *reader, const struct node *list, int *value) {
    struct wants wants = {0};
    bool good = list->first != NULL;
    if (!good)
        diag_error(reader->diag, list->place, "an empty list asks for no gradient: leave wants out for dq, dk and dv");
    for (const struct node *name = list->first; name && !enough(reader); name = name->next)
        if (name->kind == NODE_SCALAR) {
            good &= wants_add(&wants, name->text, name->size, text_place(name), &reader->spec->params, reader->diag);
        } else {
            diag_error(reader->diag, name->place, "wants takes names of gradients, found %s", node_kind_name(name));
            good = false;
        }
    return good && keep_wants(reader->spec, &wants, list->place, value, reader->diag);
}

static void add_value(struct reader *reader, enum knob_id id, struct spec_axis *axis, const struct node *item) {
    int value;
    if (id == KNOB_wants && item->kind == NODE_LIST) {
        if (read_wants(reader, item, &value))
            axis->value[axis->count++] = value;
        return;
    }
    if (item->kind != NODE_SCALAR) {
        diag_error(reader->diag, item->place, "%s takes single values here, found %s", knob_table[id].name,
                   node_kind_name(item));
        return;
    }
    if (!knob_value_read(id, item->text, item->size, item->place, reader->diag, &value))
        return;
    bool word = knob_word(id, item->text, item->size) >= 0;
    const struct formula_text text = {item->text, item->size, text_place(item)};
    if (knob_table[id].kind == KNOB_KIND_FORMULA && !word &&
        !read_formula(reader->spec, id, text, &value, reader->diag))
        return;
    for (int i = 0; i < axis->count; i++)
        if (axis->value[i] == value) {
            diag_error(reader->diag, item->place, "%s appears twice in this list", shown(item->text, item->size).text);
            return;
        }
    if (id == KNOB_algorithm)
        check_algorithm(reader, item, value);
    axis->value[axis->count++] = value;
}

static void read_axis(struct reader *reader, enum knob_id id, const struct node *key, const struct node *value) {
    if (value->kind == NODE_MAP) {
        diag_error(reader->diag, value->place, "%s takes a value or a list of values, found a map", key->text);
        return;
    }
    if (value->kind == NODE_LIST && !value->first) {
        diag_error(reader->diag, value->place, "an empty list leaves no variant: give %s a value, or leave it out",
                   key->text);
        return;
    }
    struct spec_axis *axis = &reader->spec->axis[id];
    /* a list of gradients is one value, and a list of such lists an axis */
    bool one = id == KNOB_wants && value->kind == NODE_LIST && value->first && value->first->kind == NODE_SCALAR;
    bool list = value->kind == NODE_LIST && !one;
    int *values = calloc(list ? (size_t)value->children : 1, sizeof *values);
    if (!values) {
        diag_error(reader->diag, key->place, "out of memory");
        return;
    }
    free(axis->value);
    *axis = (struct spec_axis){0, values, key->place};
    for (const struct node *item = list ? value->first : value; item && !enough(reader);
         item = list ? item->next : NULL)
        add_value(reader, id, axis, item);
}

/* False, with an error that says where the knob belongs, if it is in another group. */
static bool at_home(struct reader *reader, const struct node *key, int id, enum knob_group group) {
    static const struct {
        const char *kind, *home;
    } groups[] = {
        [KNOB_GROUP_TOP] = {"a knob of its own", "at the top of the spec"},
        [KNOB_GROUP_PROBLEM] = {"a problem knob", "under problem:"},
        [KNOB_GROUP_SCHEDULE] = {"a schedule knob", "under schedule:"},
    };
    const struct knob_info *knob = &knob_table[id];
    if (knob->group == group)
        return true;
    diag_error(reader->diag, key->place, "%s is %s: put it %s", knob->name, groups[knob->group].kind,
               groups[knob->group].home);
    return false;
}

static void read_group(struct reader *reader, const struct node *key, const struct node *value, enum knob_group group) {
    if (!expect(reader, key, value, NODE_MAP))
        return;
    for (const struct node *name = value->first; name && !enough(reader); name = name->next->next) {
        int id = knob_name_read(name->text, name->size, 1u << group, name->place, reader->diag);
        if (id >= 0 && at_home(reader, name, id, group))
            read_axis(reader, (enum knob_id)id, name, name->next);
    }
}

/* --- the keys at the top --------------------------------------------------------------------------------------- */

static void read_family(struct reader *reader, const struct node *key, const struct node *value) {
    if (!expect(reader, key, value, NODE_SCALAR))
        return;
    read_axis(reader, KNOB_family, key, value);
    const struct spec_axis *axis = &reader->spec->axis[KNOB_family];
    reader->spec->family = axis->count ? axis->value[0] : -1;
}

static void read_params(struct reader *reader, const struct node *key, const struct node *value) {
    if (!expect(reader, key, value, NODE_MAP))
        return;
    for (const struct node *name = value->first; name && !enough(reader); name = name->next->next) {
        const struct node *type = name->next;
        if (expect(reader, name, type, NODE_SCALAR) && !formulas_reserved(name->text, name->place, reader->diag))
            formula_declare(&reader->spec->params, name->place, name->text, text_place(type), type->text, reader->diag);
    }
}

static void read_about(struct reader *reader, const struct node *key, const struct node *value) {
    if (!expect(reader, key, value, NODE_SCALAR))
        return;
    free(reader->spec->about);
    reader->spec->about = copy_text(reader, value);
}

static void read_problem(struct reader *reader, const struct node *key, const struct node *value) {
    read_group(reader, key, value, KNOB_GROUP_PROBLEM);
}

static void read_schedule(struct reader *reader, const struct node *key, const struct node *value) {
    read_group(reader, key, value, KNOB_GROUP_SCHEDULE);
}

/* Sizes here are knobs of the problem: len_q is fixed_len_q, and 0 means that it is given at launch. */
static void read_fixed(struct reader *reader, const struct node *key, const struct node *value) {
    if (!expect(reader, key, value, NODE_MAP))
        return;
    for (const struct node *name = value->first; name && !enough(reader); name = name->next->next) {
        int i = 0;
        while (i < FIXED_SIZES && strcmp(shape_table[fixed_sizes[i].shape].name, name->text) != 0)
            i++;
        if (i < FIXED_SIZES)
            read_axis(reader, fixed_sizes[i].knob, name, name->next);
        else
            diag_error(reader->diag, name->place, "'%s' cannot be fixed: len_q, len_kv, heads and kv_heads can",
                       shown(name->text, name->size).text);
    }
}

static void read_target(struct reader *reader, const struct node *key, const struct node *value) {
    read_axis(reader, KNOB_target, key, value);
}

static void add_condition(struct reader *reader, const struct node *item) {
    struct spec *spec = reader->spec;
    if (item->kind != NODE_SCALAR || item->size == 0) {
        diag_error(reader->diag, item->place, "a condition is one expression, as in head_dim %% 16 == 0, found %s",
                   item->kind == NODE_SCALAR ? "nothing" : node_kind_name(item));
        return;
    }
    if (!item->raw) {
        diag_error(reader->diag, item->place, "write this condition on one line, without escapes");
        return;
    }
    static const struct expr_scope knobs_only = {0};
    struct place place = {&spec->input, item->place.line, item->raw_col};
    struct expr *condition = expr_parse(place, item->raw, item->size, NULL, EXPR_BOOL, &knobs_only, reader->diag);
    if (!condition)
        return;
    spec->require[spec->requires] = condition;
    spec->require_place[spec->requires ++] = place;
}

static void read_require(struct reader *reader, const struct node *key, const struct node *value) {
    struct spec *spec = reader->spec;
    if (spec->require || !expect(reader, key, value, NODE_LIST)) /* a second `require` is already reported */
        return;
    size_t count = (size_t)value->children + 1; /* calloc of nothing may be null */
    spec->require = calloc(count, sizeof *spec->require);
    spec->require_place = calloc(count, sizeof *spec->require_place);
    if (!spec->require || !spec->require_place) {
        diag_error(reader->diag, key->place, "out of memory");
        return;
    }
    for (const struct node *item = value->first; item && !enough(reader); item = item->next)
        add_condition(reader, item);
}

static void read_test(struct reader *reader, const struct node *key, const struct node *value) {
    if (expect(reader, key, value, NODE_MAP))
        spec_test_read(value, reader->spec, reader->diag);
}

static const struct {
    const char *name;
    key_reader *read;
} keys[] = {
#define KEY(name, takes, about) {#name, read_##name},
#include "spec_keys.def"
};

enum { KEYS = sizeof keys / sizeof *keys };

static void refuse_key(struct reader *reader, const struct node *key) {
    if (strcmp(key->text, "<<") == 0) {
        diag_error(reader->diag, key->place, "merge keys (<<) are not supported: write the keys out");
        return;
    }
    int id = knob_find(key->text, key->size);
    if (id >= 0 && !at_home(reader, key, id, KNOB_GROUP_TOP))
        return;
    const char *names[KEYS + 1] = {0};
    for (int i = 0; i < KEYS; i++)
        names[i] = keys[i].name;
    key_refuse(key->text, key->size, "a spec", names, key->place, reader->diag);
}

static void read_key(struct reader *reader, const struct node *key) {
    for (int i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, key->text) == 0) {
            if (keys[i].read != read_family && keys[i].read != read_params) /* already read: others depend on them */
                keys[i].read(reader, key, key->next);
            return;
        }
    refuse_key(reader, key);
}

static const struct node *find_key(const struct node *map, const char *name) {
    const struct node *key = map->first;
    while (key && strcmp(key->text, name) != 0)
        key = key->next->next;
    return key;
}

/* Checks that every score has all requested gradients. */
static void check_wants(struct reader *reader) {
    const struct spec *spec = reader->spec;
    const struct spec_axis *wanted = &spec->axis[KNOB_wants], *scores = &spec->axis[KNOB_score];
    for (int i = 0; i < wanted->count; i++) {
        struct wants wants;
        if (wanted->value[i] < wants_custom_wants)
            continue;
        const struct spec_formula *names = &spec->formula[wanted->value[i] - wants_custom_wants];
        const struct formula_text text = {names->text, strlen(names->text), names->place};
        bool good = wants_read(&wants, text, &spec->params, reader->diag);
        for (int j = 0; good && j < scores->count; j++) {
            bool custom = scores->value[j] >= score_custom_score;
            const char *of = custom ? spec->formula[scores->value[j] - score_custom_score].text : "";
            struct formula *score =
                custom ? formula_parse(FORMULA_SCORE, names->place, of, strlen(of), &spec->params, reader->diag) : NULL;
            good = (score || !custom) && wants_check(&wants, score, &spec->params, names->place, reader->diag);
            formula_free(score);
        }
    }
}

static void read_root(struct reader *reader, const struct node *root) {
    if (root->kind != NODE_MAP) {
        diag_error(reader->diag, root->place, "a spec is a map of keys, found %s: start it with `family: NAME`",
                   node_kind_name(root));
        return;
    }
    const struct node *family = find_key(root, "family"), *params = find_key(root, "params");
    if (params)
        read_params(reader, params, params->next);
    if (family)
        read_family(reader, family, family->next);
    else
        diag_error(reader->diag, root->place, "a spec needs the key 'family'");
    for (const struct node *key = root->first; key && !enough(reader); key = key->next->next)
        read_key(reader, key);
    if (reader->diag->errors == reader->errors_before)
        check_wants(reader);
}

/* --- making and freeing ---------------------------------------------------------------------------------------- */

/* Makes a spec with its own copy of the text, every axis at its default. Null if memory runs out. */
static struct spec *make_spec(const char *name, const char *text, size_t size) {
    struct spec *spec = calloc(1, sizeof *spec);
    if (!spec)
        return NULL;
    char *name_copy = strdup(name), *text_copy = malloc(size + 1);
    bool complete = name_copy && text_copy;
    if (text_copy) {
        if (size)
            memcpy(text_copy, text, size);
        text_copy[size] = '\0';
    }
    spec->input = (struct input){name_copy, text_copy, size};
    spec->family = -1;
    spec->about = strdup("");
    for (int id = 0; id < KNOB_COUNT; id++) {
        spec->axis[id] = (struct spec_axis){1, malloc(sizeof(int)), {&spec->input, 0, 0}};
        if (spec->axis[id].value)
            spec->axis[id].value[0] = knob_table[id].fallback;
        else
            complete = false;
    }
    if (complete && spec->about)
        return spec;
    spec_free(spec);
    return NULL;
}

struct spec *spec_read(const char *name, const char *text, size_t size, struct diag *diag) {
    static const struct yaml_kind kind = {"spec", "family: NAME", YAML_BYTES, YAML_EVENTS};
    struct spec *spec = make_spec(name, text, size > YAML_BYTES ? 0 : size);
    if (!spec) {
        diag_error(diag, (struct place){0}, "out of memory");
        return NULL;
    }
    spec->input.size = size; /* a text that is too large is not copied, only refused */
    struct reader reader = {spec, diag, diag->errors};
    struct node *root = yaml_tree_read(&spec->input, &kind, diag);
    if (root)
        read_root(&reader, root);
    yaml_tree_free(root);
    if (root && diag->errors == reader.errors_before)
        return spec;
    spec_free(spec);
    return NULL;
}

void spec_free(struct spec *spec) {
    if (!spec)
        return;
    for (int id = 0; id < KNOB_COUNT; id++)
        free(spec->axis[id].value);
    for (int i = 0; i < spec->requires; i++)
        expr_free(spec->require[i]);
    for (int i = 0; i < spec->formulas; i++)
        free(spec->formula[i].text);
    free(spec->formula);
    formula_scope_free(&spec->params);
    for (int i = 0; i < spec->inputs; i++) {
        free(spec->input_file[i].name);
        free(spec->input_file[i].path);
    }
    free(spec->require);
    free(spec->require_place);
    free(spec->shape);
    free(spec->shape_place);
    free(spec->about);
    free((char *)spec->input.name);
    free((char *)spec->input.text);
    free(spec);
}
