/* field: which kernels enter the contest: of every schedule that a problem may have, the default one, those that the model
   expects to be fastest at a shape, and a sample of the rest, lest the model be wrong. The sample is the same every
   time. */
#ifndef ATTILE_FIELD_H
#define ATTILE_FIELD_H

#include "candidates.h"
#include "tuner.h"

/* "family=attention_forward dtype=bf16 ...": a problem as records have it, of knobs of one of its kernels. */
void field_print_problem(const struct knobs *knobs, struct text *text);

/* Does a problem's kernel take this shape? One with sizes of its own (fixed: in a spec) takes no other. */
bool field_fits(const struct knobs *knobs, const struct shape *shape);

/* What the template would choose by itself for the algorithm of `like`. False when that is not feasible. */
bool field_default(const struct template_set *set, const struct knobs *like, struct variant *variant);

/* Add a candidate to the tuner's last cell: these knobs, or the template's own schedule for their algorithm. One that
   cannot be completed or expanded is none. False when memory runs out. */
bool field_add(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner);
bool field_add_default(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner);

/* Add `count` candidates for a problem at a shape, both by number in `all`; the template's own schedule first, if it is
   wanted. False when memory runs out. */
bool field_pick(const struct template_set *set, const struct candidates *all, int problem, int shape, int count,
                bool own, struct tuner *tuner);

#endif
