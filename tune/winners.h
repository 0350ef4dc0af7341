/* winners: the winners of measured contests become rows of a tuned table; kernels that were wrong, faulted, hung or crashed
   become its deny list. */
#ifndef ATTILE_WINNERS_H
#define ATTILE_WINNERS_H

#include "results.h"
#include "tuned.h"

struct winners_counts {
    int rows;    /* put into the table */
    int without; /* cells in which no kernel was measured with its present source */
    int stale;   /* kernels left aside: their source is another one now */
    int denied;
};

/* Read a record's texts. False when they are not of this version: a knob, word or size that it does not have. */
bool winners_read_problem(const char *problem, struct knobs *knobs);
bool winners_read_schedule(const char *target, const char *schedule, struct knobs *knobs); /* what is not said: AUTO */
bool winners_read_shape(const char *text, int family, struct shape *shape);

/* The variant that a record measured; a knob younger than the record is as its template has it. */
bool winners_read_variant(const struct template_set *set, const struct record *record, struct variant *variant);

struct winner {
    int kernel, runner_up; /* by number in cell->kernel; -1 = none */
    double seconds;        /* median */
    double margin;         /* how many times longer the runner-up took; 0 = none */
    int stale;             /* better ones left aside, whose source is not what the templates make of them today */
};

/* False when a cell has no winner. The template's own schedule wins when it is as good as even with the best. Null set:
   every source counts, and no schedule is the template's. */
bool winners_of(const struct result_cell *cell, const struct template_set *set, struct winner *winner);

/* Put what was measured in one setting into a table. False when memory runs out. */
bool winners_fill(struct tuned *tuned, const struct results *results, int setting, const struct template_set *set,
                  struct winners_counts *counts);

/* Make a lock file of it: every schedule names every knob of its variant. False when memory runs out. */
bool winners_lock(struct tuned *tuned, const struct template_set *set);

#endif
