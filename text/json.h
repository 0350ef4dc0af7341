/* json: writes one JSON value into a text, piece by piece. `key` is the key inside an object, and null inside an array.
   Strings are written as valid UTF-8 whatever the input; numbers that JSON cannot express (NaN, infinity) become
   null. */
#ifndef ATTILE_JSON_H
#define ATTILE_JSON_H

#include "text.h"

#include <stdint.h>

enum { JSON_DEPTH = 16 };

struct json {
    struct text *text; /* borrowed; check text->failed at the end */
    int depth;
    bool line;                /* all on one line, for JSON lines: set after json_open */
    bool filled[JSON_DEPTH];  /* this level has a member already */
    char closing[JSON_DEPTH]; /* ']' or '}' */
};

void json_open(struct json *json, struct text *text);
void json_open_object(struct json *json, const char *key); /* until json_end */
void json_open_array(struct json *json, const char *key);  /* until json_end */
void json_end(struct json *json);
void json_put_string(struct json *json, const char *key, const char *value); /* null becomes null */
void json_put_integer(struct json *json, const char *key, int64_t value);
void json_put_number(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_null(struct json *json, const char *key);
void json_close(struct json *json); /* closes what is open and ends the line */

#endif
