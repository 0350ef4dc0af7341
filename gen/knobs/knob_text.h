/* knob_text: names and values as a user wrote them, in YAML or on a command line -> ids and numbers, or an error that
   says where, what was expected, what was found and what was probably meant. */
#ifndef ATTILE_KNOB_TEXT_H
#define ATTILE_KNOB_TEXT_H

#include "diag.h"
#include "knobs.h"

#include <stdint.h>

/* Decimal digits, nothing else: no sign, no leading zero, no 0x, no 1e3, whatever a YAML reader would make of them.
   `what` names the value in the error. */
bool integer_read(const char *what, const char *s, size_t size, int64_t least, int64_t most, struct place place,
                  struct diag *diag, int64_t *value);

/* The value of one knob. For a knob that may be an expression, text that is none of its words is one, and *value its
   last word; the expression is not read here. */
bool knob_value_read(enum knob_id id, const char *s, size_t size, struct place place, struct diag *diag, int *value);

/* A knob's name. Returns the id, of whatever group, or -1 after an error that suggests knobs of `groups`: bit
   KNOB_GROUP_... set for each group that may stand here. The name of an earlier version (renamed.def) is an error, too, and
   gives the id, so that the value can be read and both errors come at once. */
int knob_name_read(const char *s, size_t size, unsigned groups, struct place place, struct diag *diag);

/* "a, b or c" of a null-terminated list. */
void text_choices(struct text *text, const char *const *words);

/* Say that a key is none of `names`, a null-terminated list, which `owner` has: "a spec". */
void key_refuse(const char *s, size_t size, const char *owner, const char *const *names, struct place place,
                struct diag *diag);

/* For diag_nearest: the words of a null-terminated list; `context` points to a `const char *const *` that advances. */
const char *next_word(void *context);

#endif
