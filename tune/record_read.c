#include "record_field.h"

#include <jansson.h>
#include <string.h>

static void copy(char *to, size_t size, const char *from) {
    size_t length = strlen(from) < size ? strlen(from) : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Stores a value. If its type is not that of the field, the field stays unknown. */
static void keep(struct record *record, const struct record_field *field, const json_t *value) {
    if (field->kind == RECORD_KIND_TEXT && json_is_string(value))
        copy(record_text(record, field), field->size, json_string_value(value));
    else if (field->kind == RECORD_KIND_INT && json_is_integer(value))
        *record_integer(record, field) = json_integer_value(value);
    else if (field->kind == RECORD_KIND_NUMBER && json_is_number(value))
        *record_number(record, field) = json_number_value(value);
}

bool record_read(const char *line, size_t size, struct record *record) {
    json_error_t error;
    json_t *object = json_loadb(line, size, 0, &error);
    const char *schema = json_string_value(json_object_get(object, "schema")); /* null if it is not an object */
    bool ours = schema && strcmp(schema, RECORD_SCHEMA) == 0;
    record_clear(record);
    for (int i = 0; ours && i < RECORD_FIELDS; i++)
        keep(record, &record_fields[i], json_object_get(object, record_fields[i].name));
    json_decref(object);
    return ours;
}
