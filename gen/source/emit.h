/* emit: writes the lines of a source: bytes in, tidy lines and their origins out. Also writes the two generated parts
   at its top, the explanatory header and the prologue of constants. */
#ifndef ATTILE_EMIT_H
#define ATTILE_EMIT_H

#include "walk.h"

enum { EMIT_LIMIT = 16 << 20 }; /* bytes of one source */

/* Lines under construction. Trailing blanks and leading empty lines are dropped; runs of empty lines fold into one. */
struct emitter {
    struct text text;
    struct line_origin *origin; /* owned */
    int lines, room;
    size_t line_start; /* of the line being written */
    const char *file;  /* where its first byte came from */
    int line;
    size_t taken; /* input bytes, including blanks */
};

/* Adds bytes from line `line` (and the following ones) of `file`; a null file means generated. False if the source
   becomes too large; text.failed says that memory ran out. */
bool emit_bytes(struct emitter *emitter, const char *bytes, size_t size, const char *file, int line);
void emit_print(struct emitter *emitter, const char *format, ...) TEXT_PRINTF(2, 3); /* generated text */
void emit_finish(struct emitter *emitter); /* completes the last line, drops empty lines at the end */
void emit_free(struct emitter *emitter);

/* The content of the header. */
struct emit_facts {
    const struct variant *variant;
    const char *spec_name;
    const struct walk *walk; /* after the walk */
    const struct plan *plan;
    const struct template_op *let[TEMPLATE_SLOTS]; /* in the order they were computed */
    int lets;
    bool said[TEMPLATE_SLOTS];        /* used by launches, workspace, maps and values in the text */
    const char *part[TEMPLATE_FILES]; /* names of spliced files in order */
    int parts;
};

/* The knobs and lets that a body mentions in capitals, as constants. */
struct emit_mentions {
    const struct emit_facts *facts;
    knob_flags knobs;
    bool slot[TEMPLATE_SLOTS];
};
void emit_mention(struct emit_mentions *mentions, const char *name, size_t size); /* a name in capitals */

/* Removes functions that nothing in the text calls, each with the comment above it, and notes what the rest mentions
   (emit_prune.c). The body must be finished. */
void emit_prune(struct emitter *body, struct emit_mentions *mentions);

/* Writes the header. Its lets are those that became constants, those that the plan refers to, and those that these
   depend on. */
void emit_header(struct emitter *emitter, const struct emit_mentions *mentions);

/* Writes `constexpr int NAME = VALUE;` for every used knob and every let that is mentioned. */
void emit_prologue(struct emitter *emitter, const struct emit_mentions *mentions);

#endif
