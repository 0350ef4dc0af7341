/* defaults: the values of a template for knobs that were left out: rows of a YAML file beside it, of which the first whose
   condition holds decides. A template names its file by the directive `defaults`.

       defaults:
         - name: small heads, with sinks
           when: head_dim <= 64 and sinks == 1      # of knobs that are none of a schedule, and facts; only the last row has none
           schedule: {block_m: 192, block_n: 128}   # every row gives the same knobs
           because: a larger tile spills registers  # may be left out
         - name: everything else
           schedule: {block_m: 128, block_n: 64} */
#ifndef ATTILE_DEFAULTS_H
#define ATTILE_DEFAULTS_H

#include "diag.h"
#include "knobs.h"

struct expr;
struct expr_env;
struct expr_fault;
struct expr_scope;

struct default_row {
    char *name, *because;  /* because: null when it is not said */
    struct expr *when;     /* null = always */
    struct knobs schedule; /* AUTO: not given */
    struct place place;    /* of the row; its input is the table's */
};

struct defaults {
    char *name;         /* of the file; owned */
    struct input input; /* text borrowed from the loader */
    knob_flags given;   /* by every row */
    knob_flags asked;   /* by the conditions */
    int rows;
    struct default_row *row;
};

/* Read a whole table, all errors in one pass; `scope` is what conditions may name beside knobs. The text must live as long as
   the table. Null after an error. */
struct defaults *defaults_read(const char *name, const char *text, size_t size, const struct expr_scope *scope,
                               struct diag *diag);
void defaults_free(struct defaults *defaults); /* accepts null */

/* The first row that holds. Null: a condition has no value, and *fault says why. */
const struct default_row *defaults_find(const struct defaults *defaults, const struct expr_env *env,
                                        struct expr_fault *fault);

#endif
