/* table_read: reads the elements of a YAML table: maps with keys of a closed list, texts and knobs. */
#include "table_read.h"
#include "formulas.h"
#include "knob_text.h"

#include <stdlib.h>
#include <string.h>

bool table_enough(const struct table_reader *reader) {
    return reader->diag->errors - reader->errors_before >= DIAG_LIMIT;
}

bool table_expect(struct table_reader *reader, const struct node *value, enum node_kind kind, const char *what) {
    static const char *const wanted[] = {"a single value", "a list", "a map"};
    if (value->kind == kind && (kind != NODE_SCALAR || value->size > 0))
        return true;
    diag_error(reader->diag, value->place, "%s takes %s, found %s", what, wanted[kind],
               value->kind == NODE_SCALAR && value->size == 0 ? "nothing" : node_kind_name(value));
    return false;
}

static void refuse_key(struct table_reader *reader, const struct node *key, const struct table_key *keys, int count,
                       const char *what) {
    const char *names[8] = {0};
    for (int i = 0; i < count; i++)
        names[i] = keys[i].name;
    key_refuse(key->text, key->size, what, names, key->place, reader->diag);
}

void table_keys(struct table_reader *reader, const struct node *map, const struct table_key *keys, int count,
                const char *what, void *result) {
    unsigned seen = 0;
    if (!table_expect(reader, map, NODE_MAP, what))
        return;
    for (const struct node *key = map->first; key && !table_enough(reader); key = key->next->next) {
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

void table_text(struct table_reader *reader, const struct node *value, char **result, const char *what) {
    if (!table_expect(reader, value, NODE_SCALAR, what))
        return;
    char *copy = strdup(value->text);
    if (!copy)
        diag_error(reader->diag, value->place, "out of memory");
    free(*result);
    *result = copy;
}

void table_knobs(struct table_reader *reader, const struct node *map, unsigned groups, int extra, const char *what,
                 struct knobs *knobs) {
    struct formula_texts formulas = {0};
    if (!table_expect(reader, map, NODE_MAP, what))
        return;
    for (const struct node *key = map->first; key && !table_enough(reader); key = key->next->next) {
        const struct node *item = key->next;
        const struct formula_text text = {item->text, item->size, item->place};
        if (groups >> KNOB_GROUP_PROBLEM & 1 && strcmp(key->text, "params") == 0) {
            if (table_expect(reader, item, NODE_SCALAR, "params"))
                formulas.params = text;
            continue;
        }
        int value, id = knob_name_read(key->text, key->size, groups, key->place, reader->diag);
        if (id < 0 || !table_expect(reader, item, NODE_SCALAR, knob_table[id].name))
            continue;
        if (!(groups >> knob_table[id].group & 1) && id != extra)
            diag_error(reader->diag, key->place, "%s does not belong to %s", knob_table[id].name, what);
        else if (knob_value_read((enum knob_id)id, item->text, item->size, item->place, reader->diag, &value))
            knob_set(knobs, (enum knob_id)id, value);
        if (knob_table[id].kind == KNOB_KIND_FORMULA)
            *formula_text_of(&formulas, (enum knob_id)id) = text;
    }
    formulas_read(&formulas, knobs, reader->diag);
}
