/* winners: turns the winners of measured contests into rows of a tuned table, and kernels that were wrong, faulted,
   hung or crashed into its deny list. */
#ifndef ATTILE_WINNERS_H
#define ATTILE_WINNERS_H

#include "results.h"
#include "tuned.h"

struct winners_counts {
    int rows;    /* rows put into the table */
    int without; /* cells without a measured kernel whose source is still the present one */
    int stale;   /* kernels left out: their source has changed */
    int denied;
};

/* Read a record's texts. False when they do not fit this version: a knob, word or size that it does not have. */
bool winners_read_problem(const char *problem, struct knobs *knobs);
bool winners_read_schedule(const char *target, const char *schedule, struct knobs *knobs); /* AUTO if not mentioned */
bool winners_read_shape(const char *text, int family, struct shape *shape);

/* Makes the variant that a record measured; a knob newer than the record has the value of its template. */
bool winners_read_variant(const struct template_set *set, const struct record *record, struct variant *variant);

struct winner {
    int kernel, runner_up; /* indices in cell->kernel; -1 = none */
    double seconds;        /* median */
    double margin;         /* time of the runner-up divided by the winner's; 0 = none */
    int stale;             /* better ones left out, whose source differs from what the templates produce today */
};

/* Finds the winner of a cell; false when it has none. The template's own schedule wins when it is practically as good
   as the best. With a null set every source counts, and no schedule is the template's. */
bool winners_of(const struct result_cell *cell, const struct template_set *set, struct winner *winner);

/* Puts the measurements of one setting into a table. False when memory runs out. */
bool winners_fill(struct tuned *tuned, const struct results *results, int setting, const struct template_set *set,
                  struct winners_counts *counts);

/* Turns the table into a lock file: every schedule names every knob of its variant. False when memory runs out. */
bool winners_lock(struct tuned *tuned, const struct template_set *set);

#endif
