/* results: records grouped by where they were measured, then by problem and shape, then by kernel. */
#ifndef ATTILE_RESULTS_H
#define ATTILE_RESULTS_H

#include "contest.h"
#include "record.h"

struct result_setting { /* where something was measured: numbers of different settings are never compared */
    char *device, *arch, *driver, *compiler, *generator;
    int records;
    int64_t newest; /* seconds since 1970 */
};

struct result_kernel {
    char *variant, *target, *schedule, *source;
    char *status, *error; /* of the first failure; null = none */
    int registers, passes;
    float time[CONTEST_PASSES]; /* seconds, cold or warm as requested */
};

struct result_cell { /* one problem at one shape in one setting */
    int setting;
    char *problem, *shape;
    int kernels;
    struct result_kernel *kernel;
};

struct results {
    bool warm; /* use warm times, not cold ones; set before adding */
    int settings, cells;
    struct result_setting *setting;
    struct result_cell *cell;
    int last;    /* cell of the last record: the next one often belongs to it, too */
    bool failed; /* memory ran out at some point */
};

/* A journal_visit with a struct results (initially all zero) as its context. */
void results_add(void *results, const struct record *record);
void results_free(struct results *results);

int results_find_setting(const struct results *results, const struct record *record); /* -1 = none */
int results_find_cell(const struct results *results, int setting, const char *problem, const char *shape);
int results_find_kernel(const struct result_cell *cell, const char *variant, const char *source);

/* Makes the contest of a cell from its measurements. Close it. False when memory runs out. */
bool results_contest(const struct result_cell *cell, struct contest *contest);

#endif
