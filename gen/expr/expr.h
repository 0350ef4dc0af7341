/* expr: the expressions of templates and specs, from text to a value.

       expr_parse   text      -> checked tree: every name known, every type right, every word in its knob's list
       expr_eval    tree      -> a value for one set of knobs, without allocation, as often as wanted
       expr_plan    tree      -> the same with knobs folded in, over the run-time sizes of shapes.def

   A tree is immutable once parsed and may be shared between threads. docs/expressions.md has the language. */
#ifndef ATTILE_EXPR_H
#define ATTILE_EXPR_H

#include "diag.h"
#include "knobs.h"
#include "plan.h"

enum expr_kind {
    EXPR_INT = 1,
    EXPR_BOOL = 2,
    EXPR_WORD = 4,
    EXPR_LIST = 8, /* of one of the others; only `in` and `for` take one */
    EXPR_ANY = EXPR_INT | EXPR_BOOL | EXPR_WORD
};

/* A type. Words are numbered by their place in a null-terminated list; two word types are the same when the lists are. */
struct expr_type {
    enum expr_kind kind;
    const char *const *words; /* of EXPR_WORD */
};

/* A name beside the knobs: a `let` or a loop variable. Its value is at the same index in expr_env.slots. */
struct expr_name {
    const char *name; /* null = out of scope by now */
    struct expr_type type;
};

/* What an expression may refer to: knobs always, and these. All zero = knobs only. */
struct expr_scope {
    const struct expr_name *names;
    int count;
    unsigned families;        /* bit family_... or SHAPE_OF_DEVICE set: these run-time sizes are allowed */
    const char *const *words; /* the list that an expression of one bare word belongs to, or null */
};

struct expr;

/* Parse and check the expression at `text`, which begins at `place`. `wanted` is a mask of enum expr_kind: the kinds
   the result may have; with EXPR_LIST a list of words that belong to no knob is allowed too. If `used` is null the
   expression must be all of the text, else *used becomes the number of bytes that belong to it.
   Null after an error, which is in the diag. The text is copied; place.input is borrowed for messages. */
struct expr *expr_parse(struct place place, const char *text, size_t size, size_t *used, unsigned wanted,
                        const struct expr_scope *scope, struct diag *diag);
void expr_free(struct expr *expr); /* accepts null */

const char *expr_text(const struct expr *expr);      /* as written, without blanks around it */
struct place expr_place(const struct expr *expr);    /* of its first byte */
struct expr_type expr_type(const struct expr *expr); /* of a list: the type of its items */
knob_flags expr_knobs(const struct expr *expr);      /* that it names */
bool expr_names(const struct expr *expr, int name);  /* does it name this one of expr_scope.names? */
/* Set a mark at each of expr_scope.names that it names. */
void expr_mark_names(const struct expr *expr, unsigned char *marks, unsigned char mark);
int expr_items(const struct expr *expr); /* how many items a list has */

/* The values of names. */
struct expr_slot {
    int64_t value;
    bool set;
};

struct expr_env {
    const struct knobs *knobs;
    const struct expr_slot *slots; /* null when the scope had no names */
};

enum { EXPR_MESSAGE = 768 };

/* Why an expression has no value: a knob left open, a `let` that was skipped, overflow, division by zero. */
struct expr_fault {
    struct place place;
    char message[EXPR_MESSAGE];
};

/* False when there is no value, and *fault says why. Integers as they are, booleans 0 or 1, words by number. */
bool expr_eval(const struct expr *expr, const struct expr_env *env, int64_t *value, struct expr_fault *fault);
bool expr_eval_item(const struct expr *list, int item, const struct expr_env *env, int64_t *value,
                    struct expr_fault *fault);

/* An integer expression over run-time sizes, with everything else folded into constants. */
bool expr_plan(const struct expr *expr, const struct expr_env *env, struct plan_expr *plan, struct expr_fault *fault);

/* "block_m is 40, mask is causal": the names in the expression with their values; those that do not fit in `size` bytes are
   left out whole, and "..." stands for them. */
void expr_explain(const struct expr *expr, const struct expr_env *env, char *out, size_t size);

/* "block_m % 16 == 0 does not hold: block_m is 40", in at most EXPR_MESSAGE bytes. */
void expr_print_failed(const struct expr *expr, const struct expr_env *env, char *out, size_t size);

/* One value as it is written in an expression. */
void expr_print_value(struct expr_type type, int64_t value, char *out, size_t size);

#endif
