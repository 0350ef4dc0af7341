/* emit: writes the lines of a source: bytes in, tidy lines and their origins out; and the two generated parts at its
   top, the explanatory header and the prologue of constants. */
#ifndef ATTILE_EMIT_H
#define ATTILE_EMIT_H

#include "walk.h"

enum { EMIT_LIMIT = 16 << 20 }; /* bytes of one source */

/* Lines under construction. Trailing blanks vanish, runs of empty lines fold to one, none is at the start. */
struct emitter {
    struct text text;
    struct line_origin *origin; /* owned */
    int lines, room;
    size_t line_start; /* of the line being written */
    const char *file;  /* where its first byte came from */
    int line;
    size_t taken; /* bytes that were put in, blanks included */
};

/* Add bytes that stand on line `line` (and the next ones) of `file`; a null file means generated. False when the source
   becomes too large; out of memory shows in text.failed. */
bool emit_bytes(struct emitter *emitter, const char *bytes, size_t size, const char *file, int line);
void emit_print(struct emitter *emitter, const char *format, ...) TEXT_PRINTF(2, 3); /* generated text */
void emit_finish(struct emitter *emitter); /* complete the last line, drop empty lines at the end */
void emit_free(struct emitter *emitter);

/* What the header tells. */
struct emit_facts {
    const struct variant *variant;
    const char *spec_name;
    const struct walk *walk; /* after the walk */
    const struct plan *plan;
    const struct template_op *let[TEMPLATE_SLOTS]; /* in the order they were computed */
    int lets;
    bool said[TEMPLATE_SLOTS];        /* by launches, workspace, maps and values in the text */
    const char *part[TEMPLATE_FILES]; /* names of spliced files in order */
    int parts;
};

/* Which knobs and lets a body mentions in capitals, as the constants that they become. */
struct emit_mentions {
    const struct emit_facts *facts;
    knob_flags knobs;
    bool slot[TEMPLATE_SLOTS];
};
void emit_mention(struct emit_mentions *mentions, const char *name, size_t size); /* a name in capitals */

/* Take functions out that nothing in the text calls, each with the comment above it, and note what the rest mentions
   (emit_prune.c). On a finished body. */
void emit_prune(struct emitter *body, struct emit_mentions *mentions);

/* Of the lets those that became constants, that the plan refers to, and that these are made of. */
void emit_header(struct emitter *emitter, const struct emit_mentions *mentions);

/* `constexpr int NAME = VALUE;` for every used knob and every let that is mentioned. */
void emit_prologue(struct emitter *emitter, const struct emit_mentions *mentions);

#endif
