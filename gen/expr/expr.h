/* expr: the expressions of templates and specs, from text to a value.

       expr_parse   text      -> checked tree: every name is known, every type fits, every word is in its knob's list
       expr_eval    tree      -> a value for one set of knobs; allocates nothing and may be repeated
       expr_plan    tree      -> an expression over the run-time sizes of shapes.def, with the knobs folded in

   A tree is immutable once parsed and may be shared between threads. docs/expressions.md describes the language. */
#ifndef ATTILE_EXPR_H
#define ATTILE_EXPR_H

#include "diag.h"
#include "knobs.h"
#include "plan.h"

enum expr_kind {
    EXPR_INT = 1,
    EXPR_BOOL = 2,
    EXPR_WORD = 4,
    EXPR_LIST = 8, /* a list of one of the others; only `in` and `for` take one */
    EXPR_ANY = EXPR_INT | EXPR_BOOL | EXPR_WORD
};

/* A type. A word's number is its index in a null-terminated list; two word types are equal if their lists are equal. */
struct expr_type {
    enum expr_kind kind;
    const char *const *words; /* of EXPR_WORD */
};

/* A name that is not a knob: a `let` or a loop variable. Its value is at the same index in expr_env.slots. */
struct expr_name {
    const char *name; /* null = no longer in scope */
    struct expr_type type;
};

/* The names that an expression may use in addition to knobs. All zero = knobs only. */
struct expr_scope {
    const struct expr_name *names;
    int count;
    unsigned families;        /* bits family_... and SHAPE_OF_DEVICE: whose run-time sizes are allowed */
    const char *const *words; /* the list that an expression of one bare word belongs to, or null */
};

struct expr;

/* Parses and checks the expression at `text`, which begins at `place`. `wanted` is a mask of enum expr_kind: the kinds
   that the result may have; with EXPR_LIST, a list of words that belong to no knob is also allowed. If `used` is null,
   the expression must span the whole text; otherwise *used becomes the number of bytes that belong to it.
   Returns null after an error, which is in the diag. The text is copied; place.input is borrowed for messages. */
struct expr *expr_parse(struct place place, const char *text, size_t size, size_t *used, unsigned wanted,
                        const struct expr_scope *scope, struct diag *diag);
void expr_free(struct expr *expr); /* accepts null */

const char *expr_text(const struct expr *expr);      /* as written, without blanks around it */
struct place expr_place(const struct expr *expr);    /* of its first byte */
struct expr_type expr_type(const struct expr *expr); /* for a list, the type of its items */
knob_flags expr_knobs(const struct expr *expr);      /* the knobs that it names */
bool expr_names(const struct expr *expr, int name);  /* true if it names expr_scope.names[name] */
/* Sets `mark` in marks[i] for each expr_scope.names[i] that the expression names. */
void expr_mark_names(const struct expr *expr, unsigned char *marks, unsigned char mark);
int expr_items(const struct expr *expr); /* number of items of a list */

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

/* Why an expression has no value: a knob without a value, a skipped `let`, overflow, division by zero. */
struct expr_fault {
    struct place place;
    char message[EXPR_MESSAGE];
};

/* Evaluates an expression, or an item of a list: booleans as 0 or 1, words as their numbers. False if there is no
   value; then *fault says why. */
bool expr_eval(const struct expr *expr, const struct expr_env *env, int64_t *value, struct expr_fault *fault);
bool expr_eval_item(const struct expr *list, int item, const struct expr_env *env, int64_t *value,
                    struct expr_fault *fault);

/* Turns an integer expression into one over run-time sizes, with everything else folded into constants. */
bool expr_plan(const struct expr *expr, const struct expr_env *env, struct plan_expr *plan, struct expr_fault *fault);

/* Prints "block_m is 40, mask is causal": the names in the expression with their values. Names that do not fit in
   `size` bytes are omitted entirely and replaced by "...". */
void expr_explain(const struct expr *expr, const struct expr_env *env, char *out, size_t size);

/* Prints "block_m % 16 == 0 does not hold: block_m is 40", in at most EXPR_MESSAGE bytes. */
void expr_print_failed(const struct expr *expr, const struct expr_env *env, char *out, size_t size);

/* Prints a value as it is written in an expression. */
void expr_print_value(struct expr_type type, int64_t value, char *out, size_t size);

#endif
