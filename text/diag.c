#include "diag.h"

#include <string.h>

enum { LINE_SHOWN = 160, WORD_COMPARED = 64 };

/* Returns the bytes of line number `line` (from 1), without its newline. */
static const char *find_line(const struct input *input, int line, size_t *size) {
    const char *at = input->text, *end = at + input->size;
    for (; line > 1 && at < end; line--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    *size = (size_t)((newline ? newline : end) - at);
    return at;
}

static void show_line(struct text *text, struct place place) {
    size_t size;
    const char *line = find_line(place.input, place.line, &size);
    int start = place.col > LINE_SHOWN ? place.col - LINE_SHOWN / 2 : 0; /* keep the caret in view on long lines */
    text_print(text, "%5d |     ", place.line);
    for (size_t i = (size_t)start; i < size && i < (size_t)start + LINE_SHOWN; i++) {
        unsigned char byte = (unsigned char)line[i];
        char shown = (char)(byte == '\t' ? ' ' : byte < ' ' || byte == 127 ? '?' : byte);
        text_append(text, &shown, 1);
    }
    text_print(text, "\n      |     ");
    for (int i = start; i < place.col - 1 && (size_t)i < size; i++)
        if (((unsigned char)line[i] & 0xc0) != 0x80) /* a character of UTF-8 takes one column, however many bytes */
            text_append(text, " ", 1);
    text_print(text, "^\n");
}

static void show_place(struct text *text, struct place place, bool with_column) {
    if (!place.input)
        return;
    text_print(text, "%s:", place.input->name);
    if (place.line > 0)
        text_print(text, "%d:", place.line);
    if (place.line > 0 && with_column)
        text_print(text, "%d:", place.col);
    text_print(text, " ");
}

void diag_error(struct diag *diag, struct place place, const char *format, ...) {
    if (diag->errors++ >= DIAG_LIMIT)
        return;
    show_place(&diag->text, place, true);
    text_print(&diag->text, "error: ");
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&diag->text, format, arguments);
    va_end(arguments);
    text_print(&diag->text, "\n");
    if (place.input && place.line > 0 && place.col > 0)
        show_line(&diag->text, place);
}

void diag_note(struct diag *diag, struct place place, const char *format, ...) {
    if (diag->errors > DIAG_LIMIT)
        return;
    show_place(&diag->text, place, false);
    text_print(&diag->text, "note: ");
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&diag->text, format, arguments);
    va_end(arguments);
    text_print(&diag->text, "\n");
}

void diag_free(struct diag *diag) {
    text_free(&diag->text);
    diag->errors = 0;
}

/* Optimal string alignment distance: insert, delete, replace, or swap neighbours, each at cost 1. */
static int distance(const char *a, size_t n, const char *b, size_t m) {
    int before[WORD_COMPARED + 1], last[WORD_COMPARED + 1], row[WORD_COMPARED + 1];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        memcpy(before, last, (m + 1) * sizeof *row);
        memcpy(last, row, (m + 1) * sizeof *row);
    }
    return last[m];
}

/* Returns our name if `word` is what other libraries call it; otherwise null. */
static const char *synonym(const char *word, size_t size) {
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
#define SYNONYM(theirs, ours) {theirs, ours},
#include "synonyms.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_equals(word, size, rows[i].theirs))
            return rows[i].ours;
    return NULL;
}

const char *diag_nearest(const char *word, size_t size, const char *(*next)(void *context), void *context) {
    const char *nearest = NULL, *longer = NULL, *ours = synonym(word, size);
    int least = size < 4 ? 2 : 3; /* a larger distance looks like noise, not like a slip */
    int begun = 0;                /* candidates that begin with the word and are at most twice as long */
    if (size > WORD_COMPARED)
        return NULL;
    for (const char *candidate; (candidate = next(context));) {
        size_t length = strlen(candidate);
        if (length > WORD_COMPARED)
            continue;
        if (ours && strcmp(candidate, ours) == 0)
            return candidate;
        if (length > size && length <= 2 * size && memcmp(candidate, word, size) == 0) {
            longer = candidate;
            begun++;
        }
        int d = distance(word, size, candidate, length);
        if (d < least && (size_t)d < length) {
            least = d;
            nearest = candidate;
        }
    }
    return nearest || begun != 1 ? nearest : longer;
}

enum { SHOWN = 40 };

struct shown shown(const char *s, size_t size) {
    struct shown result = {{0}};
    size_t count = size > SHOWN ? SHOWN : size;
    while (count < size && count > 0 && ((unsigned char)s[count] & 0xC0) == 0x80)
        count--; /* never cut a character in two */
    for (size_t i = 0; i < count; i++)
        result.text[i] = (char)((unsigned char)s[i] < ' ' || s[i] == 127 ? '?' : s[i]);
    if (count < size)
        memcpy(result.text + count, "...", 4);
    return result;
}
