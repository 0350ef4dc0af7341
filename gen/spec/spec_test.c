#include "spec_test.h"
#include "knob_text.h"

#include <stdlib.h>
#include <string.h>

static const char *const tensors[][5] = {
    [family_softmax] = {"x"},
    [family_attention_forward] = {"q", "k", "v"},
    [family_merge] = {"o_parts", "lse_parts"},
    [family_attention_backward] = {"q", "k", "v", "d_o"},
    [family_append_kv] = {"q", "k", "v"},
};

const char *const *spec_test_tensors(int family) { return tensors[family]; }

/* --- shapes ---------------------------------------------------------------------------------------------------- */

/* The largest tensors of each family, as products of run-time sizes. */
static const struct {
    int family;
    int size[4]; /* enum shape_id; -1 ends */
} products[] = {
    {family_softmax, {SHAPE_rows, SHAPE_cols, -1}},
    {family_attention_forward, {SHAPE_batch, SHAPE_heads, SHAPE_len_q, SHAPE_len_kv}},
    {family_attention_forward, {SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, -1}},
    {family_attention_backward, {SHAPE_batch, SHAPE_heads, SHAPE_len_q, SHAPE_len_kv}},
    {family_attention_backward, {SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, -1}},
    {family_merge, {SHAPE_parts, SHAPE_batch, SHAPE_heads, SHAPE_len_q}},
    {family_append_kv, {SHAPE_batch, SHAPE_heads, SHAPE_len_q, -1}},
    {family_append_kv, {SHAPE_batch, SHAPE_kv_heads, SHAPE_len_kv, -1}},
};

enum { ROW_BYTES = 2048 }; /* twice the longest row of one head, 256 elements of 4 bytes: room for any workspace too */

static bool fits(const struct shape *shape, int family) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        int64_t bytes = ROW_BYTES;
        bool counts = products[i].family == family;
        for (int k = 0; counts && k < 4 && products[i].size[k] >= 0; k++) {
            int64_t size = shape_get(shape, (enum shape_id)products[i].size[k]);
            if (__builtin_mul_overflow(bytes, size > 0 ? size : 1, &bytes))
                return false;
        }
    }
    return true;
}

static bool has_size(int family, int id) { return (shape_table[id].families & 1u << family) != 0; }

/* For diag_nearest: the sizes of one family. */
struct size_names {
    int family, next;
};

static const char *next_size(void *context) {
    struct size_names *names = context;
    while (names->next < SHAPE_COUNT) {
        int id = names->next++;
        if (has_size(names->family, id))
            return shape_table[id].name;
    }
    return NULL;
}

static int size_name_read(const struct node *key, int family, struct diag *diag) {
    int id = shape_find(key->text, key->size);
    if (id >= 0 && has_size(family, id))
        return id;
    struct size_names names = {family, 0};
    const char *choice[SHAPE_COUNT + 1];
    int count = 0;
    while ((choice[count] = next_size(&names)))
        count++;
    names.next = 0;
    const char *meant = diag_nearest(key->text, key->size, next_size, &names);
    struct text choices = {0};
    text_choices(&choices, choice);
    if (meant)
        diag_error(diag, key->place, "unknown size '%s'; did you mean '%s'?", shown(key->text, key->size).text, meant);
    else
        diag_error(diag, key->place, "'%s' is not a size of %s, which has %s", shown(key->text, key->size).text,
                   knob_word_name(KNOB_family, family), text_string(&choices));
    text_free(&choices);
    return -1;
}

/* Sizes that were left out get their fallback; sizes of other families get it too, so that every field is defined. */
static bool fill_shape(const struct node *map, int family, unsigned given, struct shape *shape, struct diag *diag) {
    bool complete = true;
    for (int id = 0; id < SHAPE_COUNT; id++) {
        if (given & 1u << id)
            continue;
        bool missing = has_size(family, id) && shape_table[id].fallback < 0;
        if (missing)
            diag_error(diag, map->place, "this shape needs %s: %s", shape_table[id].name, shape_table[id].about);
        complete = complete && !missing;
        shape_set(shape, (enum shape_id)id, shape_table[id].fallback < 0 ? 0 : shape_table[id].fallback);
    }
    if (shape->kv_heads == 0)
        shape->kv_heads = shape->heads;
    return complete;
}

bool spec_shape_read(const struct node *map, int family, struct shape *shape, struct diag *diag) {
    unsigned given = 0;
    bool good = true;
    *shape = (struct shape){0};
    if (map->kind != NODE_MAP) {
        diag_error(diag, map->place, "a shape is a map like {rows: 3, cols: 100}, found %s", node_kind_name(map));
        return false;
    }
    for (const struct node *key = map->first; key; key = key->next->next) {
        const struct node *value = key->next;
        int id = size_name_read(key, family, diag);
        int64_t size = 0;
        if (id >= 0 && value->kind != NODE_SCALAR)
            diag_error(diag, value->place, "%s takes one integer, found %s", key->text, node_kind_name(value));
        good = id >= 0 && value->kind == NODE_SCALAR &&
               integer_read(shape_table[id].name, value->text, value->size, shape_table[id].least, INT64_MAX,
                            value->place, diag, &size) &&
               good;
        if (id >= 0) {
            given |= 1u << id;
            shape_set(shape, (enum shape_id)id, size);
        }
    }
    good = fill_shape(map, family, given, shape, diag) && good;
    if (!good)
        return false;
    if (shape->kv_heads != 0 && shape->heads % shape->kv_heads != 0)
        diag_error(diag, map->place, "kv_heads must divide heads: %lld does not divide %lld",
                   (long long)shape->kv_heads, (long long)shape->heads);
    else if (!fits(shape, family))
        diag_error(diag, map->place, "this shape is too large: its tensors have more bytes than 64 bits can count");
    else
        return true;
    return false;
}

static void read_shape(const struct node *map, struct spec *spec, struct diag *diag) {
    /* a refused shape is kept too: the spec as a whole is then not used */
    spec_shape_read(map, spec->family, &spec->shape[spec->shapes], diag);
    spec->shape_place[spec->shapes++] = map->place;
}

static void read_shapes(const struct node *list, struct spec *spec, struct diag *diag) {
    if (spec->shape) /* a second `shapes` is already reported */
        return;
    if (list->kind != NODE_LIST || !list->first) {
        diag_error(diag, list->place, "shapes takes a list of shapes, found %s",
                   list->kind == NODE_LIST ? "an empty one" : node_kind_name(list));
        return;
    }
    if (list->children > SPEC_SHAPES) {
        diag_error(diag, list->place, "at most %d shapes, found %d", SPEC_SHAPES, list->children);
        return;
    }
    spec->shape = calloc((size_t)list->children, sizeof *spec->shape);
    spec->shape_place = calloc((size_t)list->children, sizeof *spec->shape_place);
    if (!spec->shape || !spec->shape_place) {
        diag_error(diag, list->place, "out of memory");
        return;
    }
    for (const struct node *map = list->first; map; map = map->next)
        read_shape(map, spec, diag);
}

/* --- inputs ---------------------------------------------------------------------------------------------------- */

static bool is_path(const struct node *node) {
    for (size_t i = 0; i < node->size; i++)
        if ((unsigned char)node->text[i] < ' ' || node->text[i] == 127)
            return false;
    return node->kind == NODE_SCALAR && node->size > 0;
}

static bool listed(const char *const *words, const char *word) {
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

static void read_input(const struct node *key, struct spec *spec, struct diag *diag) {
    const struct node *value = key->next;
    if (!listed(tensors[spec->family], key->text)) {
        struct text choices = {0};
        text_choices(&choices, tensors[spec->family]);
        diag_error(diag, key->place, "'%s' is not an input of %s, which has %s", shown(key->text, key->size).text,
                   knob_word_name(KNOB_family, spec->family), text_string(&choices));
        text_free(&choices);
        return;
    }
    if (!is_path(value)) {
        diag_error(diag, value->place, "%s takes the path of a .npy file", key->text);
        return;
    }
    struct spec_input *input = &spec->input_file[spec->inputs++];
    *input = (struct spec_input){strdup(key->text), strdup(value->text), key->place};
    if (!input->name || !input->path)
        diag_error(diag, key->place, "out of memory");
}

static bool has_key(const struct node *map, const char *name) {
    for (const struct node *key = map->first; key; key = key->next->next)
        if (strcmp(key->text, name) == 0)
            return true;
    return false;
}

static void read_inputs(const struct node *map, struct spec *spec, struct diag *diag) {
    if (map->kind != NODE_MAP) {
        diag_error(diag, map->place, "inputs takes a map like {q: q.npy, ...}, found %s", node_kind_name(map));
        return;
    }
    if (spec->inputs) /* a second `inputs` is already reported */
        return;
    for (const struct node *key = map->first; key && spec->inputs < SPEC_INPUTS; key = key->next->next)
        read_input(key, spec, diag);
    for (const char *const *name = tensors[spec->family]; *name; name++)
        if (!has_key(map, *name))
            diag_error(diag, map->place, "inputs must name every tensor: %s is missing", *name);
}

/* --------------------------------------------------------------------------------------------------------------- */

void spec_test_read(const struct node *map, struct spec *spec, struct diag *diag) {
    for (const struct node *key = map->first; key; key = key->next->next) {
        if (strcmp(key->text, "shapes") == 0) {
            if (spec->family >= 0) /* the sizes depend on it, and its error is already reported */
                read_shapes(key->next, spec, diag);
        } else if (strcmp(key->text, "inputs") == 0) {
            if (spec->family >= 0)
                read_inputs(key->next, spec, diag);
        } else {
            diag_error(diag, key->place, "unknown key '%s': test has shapes or inputs",
                       shown(key->text, key->size).text);
        }
    }
}
