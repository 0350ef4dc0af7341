/* record_field: the fields of a record as a table, for its printer and its reader, which use different JSON
   libraries. */
#ifndef ATTILE_RECORD_FIELD_H
#define ATTILE_RECORD_FIELD_H

#include "record.h"

#include <stddef.h>

enum record_kind { RECORD_KIND_TEXT, RECORD_KIND_INT, RECORD_KIND_NUMBER };

struct record_field {
    const char *name;
    enum record_kind kind;
    size_t offset, size; /* size: of a text */
};

enum {
#define RECORD_TEXT(name, size, about) RECORD_FIELD_##name,
#define RECORD_INT(name, about)        RECORD_FIELD_##name,
#define RECORD_NUMBER(name, about)     RECORD_FIELD_##name,
#include "record.def"
    RECORD_FIELDS
};

extern const struct record_field record_fields[RECORD_FIELDS];

static inline char *record_text(struct record *record, const struct record_field *field) {
    return (char *)record + field->offset;
}
static inline int64_t *record_integer(struct record *record, const struct record_field *field) {
    return (int64_t *)(void *)((char *)record + field->offset);
}
static inline double *record_number(struct record *record, const struct record_field *field) {
    return (double *)(void *)((char *)record + field->offset);
}

#endif
