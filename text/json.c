#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Returns the length of the well-formed UTF-8 sequence at `at`, 0 if there is none. */
static size_t sequence(const unsigned char *at) {
    static const struct {
        unsigned char first, last; /* lead bytes */
        unsigned char least, most; /* the second byte; excludes overlong forms, surrogates and beyond U+10FFFF */
        size_t size;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (*at < forms[i].first || *at > forms[i].last || at[1] < forms[i].least || at[1] > forms[i].most)
            continue;
        for (size_t k = 2; k < forms[i].size; k++)
            if ((at[k] & 0xC0) != 0x80)
                return 0;
        return forms[i].size;
    }
    return 0;
}

static void quote(struct text *text, const char *string) {
    text_append(text, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        size_t size = *at < 0x80 ? 1 : sequence(at);
        if (size == 0)
            text_print(text, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            text_print(text, "\\%c", *at);
        else if (*at == '\n')
            text_print(text, "\\n");
        else if (*at < ' ' || *at == 0x7F)
            text_print(text, "\\u%04x", *at);
        else
            text_append(text, at, size);
        at += size ? size : 1;
    }
    text_append(text, "\"", 1);
}

/* Writes separator, indentation and key of the next member. */
static void begin(struct json *json, const char *key) {
    if (json->depth > 0) {
        text_print(json->text, "%s", json->filled[json->depth - 1] ? json->line ? ", " : "," : "");
        json->filled[json->depth - 1] = true;
        if (!json->line)
            text_print(json->text, "\n%*s", 2 * json->depth, "");
    }
    if (!key)
        return;
    quote(json->text, key);
    text_print(json->text, ": ");
}

static void descend(struct json *json, const char *key, char opening, char closing) {
    begin(json, key);
    if (json->depth == JSON_DEPTH) {
        json->text->failed = true;
        return;
    }
    text_append(json->text, &opening, 1);
    json->filled[json->depth] = false;
    json->closing[json->depth++] = closing;
}

void json_open(struct json *json, struct text *text) { *json = (struct json){.text = text}; }

void json_open_object(struct json *json, const char *key) { descend(json, key, '{', '}'); }

void json_open_array(struct json *json, const char *key) { descend(json, key, '[', ']'); }

void json_end(struct json *json) {
    if (json->depth == 0)
        return;
    json->depth--;
    if (json->filled[json->depth] && !json->line)
        text_print(json->text, "\n%*s", 2 * json->depth, "");
    text_append(json->text, &json->closing[json->depth], 1);
}

void json_put_string(struct json *json, const char *key, const char *value) {
    begin(json, key);
    if (value)
        quote(json->text, value);
    else
        text_print(json->text, "null");
}

void json_put_integer(struct json *json, const char *key, int64_t value) {
    begin(json, key);
    text_print(json->text, "%" PRId64, value);
}

void json_put_number(struct json *json, const char *key, double value) {
    begin(json, key);
    if (isfinite(value))
        text_print(json->text, "%.9g", value);
    else
        text_print(json->text, "null");
}

void json_put_bool(struct json *json, const char *key, bool value) {
    begin(json, key);
    text_print(json->text, value ? "true" : "false");
}

void json_put_null(struct json *json, const char *key) {
    begin(json, key);
    text_print(json->text, "null");
}

void json_close(struct json *json) {
    while (json->depth > 0)
        json_end(json);
    text_print(json->text, "\n");
}
