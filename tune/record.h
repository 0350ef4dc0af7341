/* record: one measurement or failure of one kernel on one shape, and its line in a results file: a flat JSON object
   with every field of record.def. A printed record reads back the same. */
#ifndef ATTILE_RECORD_H
#define ATTILE_RECORD_H

#include "text.h"

#include <stdint.h>

#define RECORD_SCHEMA "attile.tune/1"

struct record {
#define RECORD_TEXT(name, size, about) char name[size];
#define RECORD_INT(name, about)        int64_t name;
#define RECORD_NUMBER(name, about)     double name;
#include "record.def"
};

/* Sets everything to unknown: texts empty, integers -1, numbers NaN. */
void record_clear(struct record *record);

/* Appends the line, with its newline. */
void record_print(const struct record *record, struct text *line);

/* Reads a line. Fields that are missing or of another type stay unknown; foreign fields are skipped. False when it is
   not a JSON object with our schema. */
bool record_read(const char *line, size_t size, struct record *record);

static inline bool record_ok(const struct record *record) { return record->status[0] == 'o'; }

#endif
