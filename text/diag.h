/* diag: collects messages about specs and templates. Every message has the same parts: where (file:line:col), one
   sentence, the source line with a caret, and possibly a note that says how we got there. Prints nothing. */
#ifndef ATTILE_DIAG_H
#define ATTILE_DIAG_H

#include "text.h"

/* A text being read: borrowed, not copied, and not necessarily NUL-terminated. */
struct input {
    const char *name; /* as the user wrote it; "<problem>" for text that is not from a file */
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

/* Adds "NAME:LINE:COL: error: SENTENCE", the line and a caret. Sentences start in lower case and end without a full
   stop. */
void diag_error(struct diag *diag, struct place place, const char *format, ...) TEXT_PRINTF(3, 4);

/* Adds "NAME:LINE: note: SENTENCE", to the previous error or on its own: a note alone leaves `errors` at 0. */
void diag_note(struct diag *diag, struct place place, const char *format, ...) TEXT_PRINTF(3, 4);

void diag_free(struct diag *diag); /* leaves an empty, reusable diag */

/* User text made safe to show in a message: truncated to a readable length, control bytes replaced. */
struct shown {
    char text[56];
};
struct shown shown(const char *s, size_t size);

/* Returns the candidate that `word` probably means, or null: the one from synonyms.def, else the nearest by edit
   distance, else the only one that starts with `word` and is at most twice as long. `next` returns the candidates one
   after the other and null at the end. */
const char *diag_nearest(const char *word, size_t size, const char *(*next)(void *context), void *context);

#endif
