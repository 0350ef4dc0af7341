#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(struct text *text, size_t more) {
    if (text->failed)
        return false;
    if (more >= (size_t)-1 / 2 - text->size) {
        text->failed = true;
        return false;
    }
    size_t need = text->size + more + 1;
    if (need <= text->room)
        return true;
    size_t room = text->room ? text->room : 64;
    while (room < need)
        room *= 2;
    char *bytes = realloc(text->bytes, room);
    if (!bytes) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->room = room;
    return true;
}

void text_append(struct text *text, const void *bytes, size_t size) {
    if (!grow(text, size))
        return;
    if (size)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

/* Reserves room for most lines at once, because printing is the expensive part. */
void text_vprint(struct text *text, const char *format, va_list arguments) {
    enum { LINE = 120 };
    va_list again;
    if (!grow(text, LINE))
        return;
    va_copy(again, arguments);
    size_t room = text->room - text->size;
    int size = vsnprintf(text->bytes + text->size, room, format, arguments);
    if (size < 0)
        text->failed = true;
    else if ((size_t)size >= room && grow(text, (size_t)size))
        vsnprintf(text->bytes + text->size, (size_t)size + 1, format, again);
    text->size += text->failed ? 0 : (size_t)size;
    text->bytes[text->size] = '\0';
    va_end(again);
}

void text_print(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_vprint(text, format, arguments);
    va_end(arguments);
}

bool text_fail(struct text *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_vprint(error, format, arguments);
    va_end(arguments);
    return false;
}

const char *text_string(const struct text *text) { return text->bytes ? text->bytes : ""; }

void text_free(struct text *text) {
    free(text->bytes);
    *text = (struct text){0};
}
