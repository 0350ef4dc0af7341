/* field: which kernels enter the contest: of all schedules that a problem may have, the default one, those that the
   model predicts to be fastest at a shape, and a sample of the rest in case the model is wrong. The sample is the same
   every time. */
#ifndef ATTILE_FIELD_H
#define ATTILE_FIELD_H

#include "candidates.h"
#include "tuner.h"

/* Prints "family=attention_forward dtype=bf16 ...": a problem as in records, from the knobs of one of its kernels. */
void field_print_problem(const struct knobs *knobs, struct text *text);

/* True if a problem's kernel takes this shape. A kernel with fixed sizes (fixed: in a spec) takes no others. */
bool field_fits(const struct knobs *knobs, const struct shape *shape);

/* Returns the schedule that the template itself chooses for the algorithm of `like`. False when it is not feasible. */
bool field_default(const struct template_set *set, const struct knobs *like, struct variant *variant);

/* Adds a candidate to the tuner's last cell: these knobs, or the template's own schedule for their algorithm. Skips one
   that cannot be completed or expanded. False when memory runs out. */
bool field_add(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner);
bool field_add_default(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner);

/* Adds `count` candidates for a problem at a shape, both given by their numbers in `all`; the template's own schedule
   comes first, if it is wanted. False when memory runs out. */
bool field_pick(const struct template_set *set, const struct candidates *all, int problem, int shape, int count,
                bool own, struct tuner *tuner);

#endif
