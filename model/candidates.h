/* candidates: all schedules of a spec's problems, predicted and sorted, and why the others are impossible. Uses about
   two hundred bytes per candidate and compiles nothing. */
#ifndef ATTILE_CANDIDATES_H
#define ATTILE_CANDIDATES_H

#include "model.h"

struct candidate {
    int value[KNOB_COUNT]; /* of every knob; candidates_knobs converts them back to knobs */
    int problem;           /* candidates of one problem compete; problems are numbered in the spec's order */
    double order;          /* score, increased a little if others with the same tiles come before it */
    double score; /* geometric mean over the shapes of predicted time / best of the problem; infinite = not known */
    int shared_bytes;
    int unusual;    /* schedule knobs that are not at the template's default */
    int first_time; /* index of its times, one per shape, in candidates.seconds */
};

struct pruning {
    char rule[VARIANT_REASON];    /* where the constraint stands: "attention_flash_async.cu:27" */
    char example[VARIANT_REASON]; /* the first reason it gave */
    int64_t count;
};

struct candidates {
    int count, room, problems, shapes;
    struct candidate *candidate; /* by problem, then order; ties: fewest unusual knobs, then shared memory */
    struct knobs *problem;       /* per problem: knobs of one of its candidates */
    struct model_mask *mask;     /* per problem and shape */
    const struct shape *shape;   /* borrowed */
    float *seconds;              /* 0 = the model does not know it */
    int64_t tried;               /* combinations */
    struct pruning *pruning;     /* most frequent first */
    int prunings, pruning_room;
    double search_seconds, sort_seconds; /* time spent */
    bool failed;                         /* out of memory */
};

/* Optional callbacks of the search; all may be null. */
struct candidates_filter {
    bool (*wanted)(const void *context, const struct variant *variant); /* called for feasible ones only */
    const void *context;
    bool (*interrupted)(void); /* true ends the search early */
};

/* Enumerates, predicts and sorts. `filter` may be null. Returns false if memory runs out. Call candidates_free in any
   case. */
bool candidates_find(struct candidates *candidates, const struct template_set *set, const struct spec *spec,
                     const struct model_gpu *gpu, const struct shape *shape, int shapes,
                     const struct candidates_filter *filter);
void candidates_free(struct candidates *candidates);

/* Returns complete knobs: variant_complete makes the variant again. */
struct knobs candidates_knobs(const struct candidates *candidates, const struct candidate *candidate);

/* Returns the first candidate of one problem, and stores their number in *count. */
const struct candidate *candidates_of(const struct candidates *candidates, int problem, int *count);

static inline float candidates_seconds(const struct candidates *all, const struct candidate *candidate, int shape) {
    return all->seconds[candidate->first_time + shape];
}

#endif
