/* wants: which gradients a problem of attention_backward asks for, as names: dq, dk, dv, d_sinks, and d_NAME of a float that the
   score reads. */
#ifndef ATTILE_WANTS_H
#define ATTILE_WANTS_H

#include "formula.h"

/* Text of a user and where it begins. All zero = not given. */
struct formula_text {
    const char *text;
    size_t size;
    struct place place;
};

struct wants {
    bool dq, dk, dv, sinks;
    unsigned params; /* bit i: by parameter i of the scope */
};

/* One name. An error when it names nothing that has a gradient, or is there already. */
bool wants_add(struct wants *wants, const char *name, size_t size, struct place place,
               const struct formula_scope *scope, struct diag *diag);

/* Names between commas or blanks. */
bool wants_read(struct wants *wants, struct formula_text text, const struct formula_scope *scope, struct diag *diag);

/* Has this score, or none, a gradient by each parameter that is wanted? Else an error that names the first that it has not. */
bool wants_check(const struct wants *wants, const struct formula *score, const struct formula_scope *scope,
                 struct place place, struct diag *diag);

/* Does a canonical text have the name, one of the fixed four? "" has them all: d_sinks is there where sinks are. */
bool wants_has(const char *text, const char *name);

/* "dq, dk, dv, d_slope", always in that order; "" for dq, dk and dv alone, which is the default. */
void wants_print(const struct wants *wants, const struct formula_scope *scope, struct text *text);

#endif
