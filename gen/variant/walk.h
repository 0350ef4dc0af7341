/* walk: runs a template for one set of knobs: takes the branches, repeats the loops, splices the parts, computes the
   lets, and passes all remaining ops to a visitor in order. derive.c and expand.c are the two visitors. */
#ifndef ATTILE_WALK_H
#define ATTILE_WALK_H

#include "template.h"

struct walk;

/* Visits a TEXT, VALUE, LET (already computed), DEFAULT, DEFAULTS, REQUIRE, LAUNCH, WORKSPACE or INCLUDE (before the
   part) of `file`. False stops the walk; walk->fault then says why. */
typedef bool walk_visitor(struct walk *walk, const struct template_file *file, const struct template_op *op);

struct walk {
    const struct template *template;
    struct knobs *knobs; /* a visitor may set one that is AUTO */
    walk_visitor *visit;
    void *context;
    bool with_text; /* visit TEXT and VALUE too, and run loops, which contain nothing else */

    struct expr_slot slot[TEMPLATE_SLOTS];
    bool spliced[TEMPLATE_FILES];
    struct expr_fault fault; /* after a false result */
    int steps;
};

/* The caller sets the first five fields and zeroes the rest. */
bool walk_template(struct walk *walk);

/* Returns the values that expressions see at this point of a walk. */
struct expr_env walk_env(const struct walk *walk);

/* Sets the fault and returns false. */
bool walk_fail(struct walk *walk, struct place place, const char *format, ...) TEXT_PRINTF(3, 4);

#endif
