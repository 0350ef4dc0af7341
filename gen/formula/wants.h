/* wants: the gradients that a problem of attention_backward requests, by name: dq, dk, dv, d_sinks, and d_NAME for a
   float that the score reads. */
#ifndef ATTILE_WANTS_H
#define ATTILE_WANTS_H

#include "formula.h"

/* A user's text and where it begins. All zero = not given. */
struct formula_text {
    const char *text;
    size_t size;
    struct place place;
};

struct wants {
    bool dq, dk, dv, sinks;
    unsigned params; /* bit i: with respect to parameter i of the scope */
};

/* Adds one name. An error if it names nothing that has a gradient, or is already there. */
bool wants_add(struct wants *wants, const char *name, size_t size, struct place place,
               const struct formula_scope *scope, struct diag *diag);

/* Reads names separated by commas or blanks. */
bool wants_read(struct wants *wants, struct formula_text text, const struct formula_scope *scope, struct diag *diag);

/* True if this score (or none) has a gradient with respect to each requested parameter. Otherwise an error names the
   first that it lacks. */
bool wants_check(const struct wants *wants, const struct formula *score, const struct formula_scope *scope,
                 struct place place, struct diag *diag);

/* True if a canonical text has the name, one of the fixed four. "" has all of them: d_sinks exists if there are
   sinks. */
bool wants_has(const char *text, const char *name);

/* Prints "dq, dk, dv, d_slope", always in that order; "" for dq, dk and dv alone, which is the default. */
void wants_print(const struct wants *wants, const struct formula_scope *scope, struct text *text);

#endif
