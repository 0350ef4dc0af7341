/* candidates: all schedules of a spec's problems, predicted and sorted, and why the others are not possible. Keeps about
   two hundred bytes a candidate and compiles nothing. */
#ifndef ATTILE_CANDIDATES_H
#define ATTILE_CANDIDATES_H

#include "model.h"

struct candidate {
    int value[KNOB_COUNT]; /* of every knob: candidates_knobs makes knobs of them again */
    int problem;           /* candidates of one problem compete; problems are numbered in the spec's order */
    double order;          /* score; a little more where others with the same tiles come before it */
    double score; /* geometric mean over the shapes of predicted time / best of the problem; infinite = not known */
    int shared_bytes;
    int unusual;    /* schedule knobs that are not at the template's default */
    int first_time; /* place of its times, one a shape, in candidates.seconds */
};

struct pruning {
    char rule[VARIANT_REASON];    /* where the constraint stands: "attention_flash_async.cu:27" */
    char example[VARIANT_REASON]; /* the first reason it gave */
    int64_t count;
};

struct candidates {
    int count, room, problems, shapes;
    struct candidate *candidate; /* by problem, then order; ties nearest to the defaults, then by shared memory */
    struct knobs *problem;       /* of each: knobs of one of its candidates */
    struct model_mask *mask;     /* of each, one a shape */
    const struct shape *shape;   /* borrowed */
    float *seconds;              /* 0 = the model does not know it */
    int64_t tried;               /* combinations */
    struct pruning *pruning;     /* most frequent first */
    int prunings, pruning_room;
    double search_seconds, sort_seconds; /* what it took */
    bool failed;                         /* out of memory */
};

/* What else may be said about which to take; all may be null. */
struct candidates_filter {
    bool (*wanted)(const void *context, const struct variant *variant); /* feasible ones only */
    const void *context;
    bool (*interrupted)(void); /* true ends the search early */
};

/* Enumerate, predict, sort. `filter` may be null. False when memory runs out. Free in any case. */
bool candidates_find(struct candidates *candidates, const struct template_set *set, const struct spec *spec,
                     const struct model_gpu *gpu, const struct shape *shape, int shapes,
                     const struct candidates_filter *filter);
void candidates_free(struct candidates *candidates);

/* Complete: variant_complete makes the variant again. */
struct knobs candidates_knobs(const struct candidates *candidates, const struct candidate *candidate);

/* The candidates of one problem: the first, and how many. */
const struct candidate *candidates_of(const struct candidates *candidates, int problem, int *count);

static inline float candidates_seconds(const struct candidates *all, const struct candidate *candidate, int shape) {
    return all->seconds[candidate->first_time + shape];
}

#endif
