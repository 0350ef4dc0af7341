/* knob_text: names and values as the user wrote them, in YAML or on a command line -> ids and numbers, or an error that
   says where it is, what was expected, what was found and what was probably meant. */
#ifndef ATTILE_KNOB_TEXT_H
#define ATTILE_KNOB_TEXT_H

#include "diag.h"
#include "knobs.h"

#include <stdint.h>

/* Reads decimal digits only: no sign, no leading zero, no 0x, no 1e3, even if a YAML reader accepts them.
   `what` names the value in the error. */
bool integer_read(const char *what, const char *s, size_t size, int64_t least, int64_t most, struct place place,
                  struct diag *diag, int64_t *value);

/* Reads the value of one knob. For a knob that may be an expression, any text that is not one of its words is an
   expression, and *value becomes the knob's last word; the expression is not read here. */
bool knob_value_read(enum knob_id id, const char *s, size_t size, struct place place, struct diag *diag, int *value);

/* Reads a knob's name. Returns the id, of any group, or -1 after an error that suggests knobs of `groups`: bit
   KNOB_GROUP_... set for each group that is allowed here. A name of an earlier version (renamed.def) is also an error,
   but gives the id, so that the value can be read and both errors appear at once. */
int knob_name_read(const char *s, size_t size, unsigned groups, struct place place, struct diag *diag);

/* Prints a null-terminated list as "a, b or c". */
void text_choices(struct text *text, const char *const *words);

/* Reports that a key is not one of `names`, the null-terminated list of the keys of `owner`: "a spec". */
void key_refuse(const char *s, size_t size, const char *owner, const char *const *names, struct place place,
                struct diag *diag);

/* For diag_nearest: the words of a null-terminated list; `context` points to a `const char *const *` that advances. */
const char *next_word(void *context);

#endif
