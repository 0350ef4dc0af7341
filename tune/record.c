#include "record.h"
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the table of fields ----------------------------------------------------------------------------------------- */

enum field_kind { FIELD_TEXT, FIELD_INT, FIELD_NUMBER };

static const struct field {
    const char *name;
    enum field_kind kind;
    size_t offset, size;
} fields[] = {
#define RECORD_TEXT(name, size, about) {#name, FIELD_TEXT, offsetof(struct record, name), size},
#define RECORD_INT(name, about)        {#name, FIELD_INT, offsetof(struct record, name), 0},
#define RECORD_NUMBER(name, about)     {#name, FIELD_NUMBER, offsetof(struct record, name), 0},
#include "record.def"
};

enum { FIELDS = sizeof fields / sizeof *fields };

static char *text_of(struct record *record, const struct field *field) { return (char *)record + field->offset; }
static int64_t *integer_of(struct record *record, const struct field *field) {
    return (int64_t *)(void *)((char *)record + field->offset);
}
static double *number_of(struct record *record, const struct field *field) {
    return (double *)(void *)((char *)record + field->offset);
}

void record_clear(struct record *record) {
    memset(record, 0, sizeof *record);
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].kind == FIELD_INT)
            *integer_of(record, &fields[i]) = -1;
        else if (fields[i].kind == FIELD_NUMBER)
            *number_of(record, &fields[i]) = NAN;
}

void record_print(const struct record *record, struct text *line) {
    struct record *fixed = (struct record *)(uintptr_t)record; /* only read */
    struct json json;
    json_open(&json, line);
    json.line = true;
    json_object(&json, NULL);
    json_string(&json, "schema", RECORD_SCHEMA);
    for (int i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        switch (field->kind) {
        case FIELD_TEXT: json_string(&json, field->name, text_of(fixed, field)); break;
        case FIELD_INT: json_integer(&json, field->name, *integer_of(fixed, field)); break;
        case FIELD_NUMBER: json_number(&json, field->name, *number_of(fixed, field)); break;
        }
    }
    json_close(&json);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct reader {
    const char *at, *end;
};

enum value_kind { VALUE_STRING, VALUE_NUMBER, VALUE_WORD };

struct value { /* a scalar; strings are decoded into `text`, cut to fit */
    enum value_kind kind;
    char text[4096];
};

static void skip_blank(struct reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

static bool next_is(struct reader *reader, char c) {
    skip_blank(reader);
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Four hex digits of a \u escape; -1 when they are not. Ours only writes such for control characters and U+FFFD. */
static int read_code(struct reader *reader) {
    char digits[5] = {0}, *stop;
    if (reader->end - reader->at < 4)
        return -1;
    memcpy(digits, reader->at, 4);
    long code = strtol(digits, &stop, 16);
    reader->at += 4;
    return *stop || code < 0 ? -1 : (int)code;
}

static int encode(int code, char *bytes) { /* UTF-8; half of a surrogate pair becomes U+FFFD */
    if (code >= 0xD800 && code <= 0xDFFF)
        code = 0xFFFD;
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        bytes[0] = (char)(0xC0 | code >> 6);
        bytes[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    bytes[0] = (char)(0xE0 | code >> 12);
    bytes[1] = (char)(0x80 | (code >> 6 & 0x3F));
    bytes[2] = (char)(0x80 | (code & 0x3F));
    return 3;
}

/* After the opening quote. */
static bool read_string(struct reader *reader, struct value *value) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t used = 0;
    value->kind = VALUE_STRING;
    while (reader->at < reader->end && *reader->at != '"') {
        char bytes[3] = {*reader->at++};
        int count = 1;
        if ((unsigned char)bytes[0] < ' ')
            return false;
        if (bytes[0] == '\\') {
            char letter = reader->at < reader->end ? *reader->at++ : '\0';
            const char *known = letter ? strchr(letters, letter) : NULL;
            int code = letter == 'u' ? read_code(reader) : known ? meant[known - letters] : -1;
            if (code < 0)
                return false;
            count = encode(code, bytes);
        }
        if (used + (size_t)count < sizeof value->text) {
            memcpy(value->text + used, bytes, (size_t)count);
            used += (size_t)count;
        }
    }
    value->text[used] = '\0';
    if (reader->at == reader->end)
        return false;
    reader->at++;
    return true;
}

static bool read_value(struct reader *reader, struct value *value) {
    if (next_is(reader, '"'))
        return read_string(reader, value);
    size_t size = 0;
    skip_blank(reader);
    while (reader->at < reader->end && !strchr(",} \t\r", *reader->at) && size + 1 < 64)
        value->text[size++] = *reader->at++;
    value->text[size] = '\0';
    char *stop;
    strtod(value->text, &stop);
    value->kind = *stop == '\0' && size > 0 && strchr("-0123456789", value->text[0]) ? VALUE_NUMBER : VALUE_WORD;
    return value->kind == VALUE_NUMBER || strcmp(value->text, "null") == 0 || strcmp(value->text, "true") == 0 ||
           strcmp(value->text, "false") == 0;
}

static void copy(char *to, size_t size, const char *from) {
    size_t length = strlen(from) < size ? strlen(from) : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

/* A value of another kind than the field's leaves the field unknown. */
static void keep(struct record *record, const char *name, const struct value *value) {
    for (int i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        if (strcmp(field->name, name) != 0)
            continue;
        if (field->kind == FIELD_TEXT && value->kind == VALUE_STRING)
            copy(text_of(record, field), field->size, value->text);
        else if (field->kind == FIELD_INT && value->kind == VALUE_NUMBER)
            *integer_of(record, field) = strtoll(value->text, NULL, 10);
        else if (field->kind == FIELD_NUMBER && value->kind == VALUE_NUMBER)
            *number_of(record, field) = strtod(value->text, NULL);
        return;
    }
}

bool record_read(const char *line, size_t size, struct record *record) {
    struct reader reader = {line, line + size};
    struct value name, value;
    bool ours = false;
    record_clear(record);
    if (!next_is(&reader, '{'))
        return false;
    do {
        if (!next_is(&reader, '"') || !read_string(&reader, &name) || !next_is(&reader, ':') ||
            !read_value(&reader, &value))
            return false;
        if (strcmp(name.text, "schema") == 0)
            ours = value.kind == VALUE_STRING && strcmp(value.text, RECORD_SCHEMA) == 0;
        keep(record, name.text, &value);
    } while (next_is(&reader, ','));
    bool closed = next_is(&reader, '}');
    skip_blank(&reader);
    return closed && reader.at == reader.end && ours;
}
