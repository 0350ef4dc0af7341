/* defaults: a template's values for knobs that were left out: rows of a YAML file next to it, of which the first one
   whose condition holds applies. A template names its file with the directive `defaults`.

       defaults:
         - name: small heads, with sinks
   when: head_dim <= 64 and sinks == 1 # of facts, and knobs outside the schedule; absent only in the last row
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
    char *name, *because;  /* because: null if not given */
    struct expr *when;     /* null = always */
    struct knobs schedule; /* AUTO: not given */
    struct place place;    /* of the row; its input is the table's */
};

struct defaults {
    char *name;         /* of the file; owned */
    struct input input; /* text borrowed from the loader */
    knob_flags given;   /* knobs that every row sets */
    knob_flags asked;   /* knobs that the conditions name */
    int rows;
    struct default_row *row;
};

/* Reads a whole table and reports all errors in one pass; `scope` has the names that conditions may use in addition to
   knobs. The text must live as long as the table. Null after an error. */
struct defaults *defaults_read(const char *name, const char *text, size_t size, const struct expr_scope *scope,
                               struct diag *diag);
void defaults_free(struct defaults *defaults); /* accepts null */

/* Returns the first row whose condition holds. Null if a condition has no value; then *fault says why. */
const struct default_row *defaults_find(const struct defaults *defaults, const struct expr_env *env,
                                        struct expr_fault *fault);

#endif
