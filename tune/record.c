#include "json.h"
#include "record_field.h"

#include <math.h>
#include <string.h>

const struct record_field record_fields[RECORD_FIELDS] = {
#define RECORD_TEXT(name, size, about) {#name, RECORD_KIND_TEXT, offsetof(struct record, name), size},
#define RECORD_INT(name, about)        {#name, RECORD_KIND_INT, offsetof(struct record, name), 0},
#define RECORD_NUMBER(name, about)     {#name, RECORD_KIND_NUMBER, offsetof(struct record, name), 0},
#include "record.def"
};

void record_clear(struct record *record) {
    memset(record, 0, sizeof *record);
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (record_fields[i].kind == RECORD_KIND_INT)
            *record_integer(record, &record_fields[i]) = -1;
        else if (record_fields[i].kind == RECORD_KIND_NUMBER)
            *record_number(record, &record_fields[i]) = NAN;
}

void record_print(const struct record *record, struct text *line) {
    struct record *fixed = (struct record *)(uintptr_t)record; /* only read */
    struct json json;
    json_open(&json, line);
    json.line = true;
    json_open_object(&json, NULL);
    json_put_string(&json, "schema", RECORD_SCHEMA);
    for (int i = 0; i < RECORD_FIELDS; i++) {
        const struct record_field *field = &record_fields[i];
        switch (field->kind) {
        case RECORD_KIND_TEXT: json_put_string(&json, field->name, record_text(fixed, field)); break;
        case RECORD_KIND_INT: json_put_integer(&json, field->name, *record_integer(fixed, field)); break;
        case RECORD_KIND_NUMBER: json_put_number(&json, field->name, *record_number(fixed, field)); break;
        }
    }
    json_close(&json);
}
