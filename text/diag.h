/* diag: collects messages about specs and templates. Every message has the same parts: where (file:line:col), one
   sentence, the source line with a caret, and perhaps a note that says how we got there. Nothing is printed here. */
#ifndef ATTILE_DIAG_H
#define ATTILE_DIAG_H

#include "text.h"

/* A text being read: borrowed, not copied, and not necessarily NUL-terminated. */
struct input {
    const char *name; /* as the user wrote it; "<problem>" for text that came from no file */
    const char *text;
    size_t size;
};

/* A place in an input. line and col count from 1, col in bytes; line 0 = the input as a whole. */
struct place {
    const struct input *input; /* null = nowhere in particular */
    int line, col;
};

enum { DIAG_LIMIT = 20 }; /* errors kept in full; later ones are only counted */

struct diag {
    struct text text; /* all messages, ready to show */
    int errors;
};

/* Add "NAME:LINE:COL: error: SENTENCE", the line and a caret. Sentences start small and end without a stop. */
void diag_error(struct diag *diag, struct place place, const char *format, ...) TEXT_PRINTF(3, 4);

/* Add "NAME:LINE: note: SENTENCE", to the error before it or by itself: a note alone leaves `errors` at 0. */
void diag_note(struct diag *diag, struct place place, const char *format, ...) TEXT_PRINTF(3, 4);

void diag_free(struct diag *diag); /* leaves an empty, reusable diag */

/* User text made safe to show in a message: cut to a readable length, control bytes replaced. */
struct shown {
    char text[56];
};
struct shown shown(const char *s, size_t size);

/* The candidate that `word` probably means, or null: the one of synonyms.def, else the nearest in edit distance, else the
   only one of which it is the first half or more. `next` returns the candidates one after the other and null at the end. */
const char *diag_nearest(const char *word, size_t size, const char *(*next)(void *context), void *context);

#endif
