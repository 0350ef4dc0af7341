/* text: a growing byte buffer, kept NUL-terminated so that `bytes` can be printed at any time. A failed allocation sets
   `failed` and turns later appends into no-ops: check once, at the end. Also classifies bytes for the languages read
   here, independent of the locale. */
#ifndef ATTILE_TEXT_H
#define ATTILE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define TEXT_PRINTF(n, first) __attribute__((format(printf, n, first)))
#else
#define TEXT_PRINTF(n, first)
#endif

struct text {
    char *bytes; /* owned; null while empty */
    size_t size; /* without the final NUL */
    size_t room;
    bool failed; /* an allocation has failed */
};

void text_append(struct text *text, const void *bytes, size_t size);
void text_print(struct text *text, const char *format, ...) TEXT_PRINTF(2, 3);
void text_vprint(struct text *text, const char *format, va_list arguments);
bool text_fail(struct text *error, const char *format, ...) TEXT_PRINTF(2, 3); /* text_print, then returns false */
const char *text_string(const struct text *text);                              /* never null: "" while empty */
void text_free(struct text *text);                                             /* leaves an empty, reusable buffer */

static inline bool text_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool text_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool text_is_name(char c) { return text_is_letter(c) || text_is_digit(c); }
static inline bool text_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; } /* within a line */

/* True if these bytes are `word`. Most are not, and differ in the first byte. */
static inline bool text_equals(const char *bytes, size_t size, const char *word) {
    size_t i = 0;
    while (i < size && word[i] && bytes[i] == word[i])
        i++;
    return i == size && !word[i];
}

#endif
