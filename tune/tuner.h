/* tuner: what to tune: cells, candidates, their contests, and what a journal knows of them. tuner_run.h runs it. */
#ifndef ATTILE_TUNER_H
#define ATTILE_TUNER_H

#include "journal.h"
#include "contest.h"
#include "results.h"
#include "stand.h"
#include "worker.h"

struct tuner;

struct tuner_options {
    struct att_options session; /* device, cache, templates; `ordinal` if `one_gpu` */
    bool one_gpu;               /* else all GPUs of the machine */
    int jobs;                   /* parallel compilations; 0 = one per processor, minus the measuring ones */
    double budget;              /* seconds in all */
    double timeout;             /* seconds to compile or measure one kernel */
    bool warm;                  /* decide by warm times, not cold ones */
    worker_body *body;          /* null = stand_body; others are for tests */

    bool (*interrupted)(void); /* null = never */
    /* Called often; null = none. `cell` is one that is being measured, or -1. */
    void (*progress)(void *context, const struct tuner *tuner, int cell);
    void *context;
};

enum kernel_state { KERNEL_NEW, KERNEL_COMPILING, KERNEL_READY, KERNEL_FAILED };

struct tuner_kernel {
    struct variant variant;
    char source[17]; /* beginning of its digest */
    enum kernel_state state;
};

struct tuner_cell {
    char *problem;    /* family and problem knobs; owned */
    char *shape_text; /* owned */
    struct shape shape;
    int candidates, room;
    int *kernel; /* indices of tuner_kernel, in the order of their first measurements; owned */
    int usual;   /* index of the template's own schedule, which is measured to the end; -1 = none */
    struct contest contest;
    bool begun, done;
    double start, end; /* on the monotonic clock, once begun */
};

struct tuner {
    struct tuner_options options;
    struct crew *crew; /* the workers; null before tuner_connect */
    int kernels, kernel_room, cells;
    struct tuner_kernel *kernel;
    struct tuner_cell *cell;
    int *bucket, buckets; /* indices of kernels by source digest, open addressing; -1 = free */

    struct record setting; /* where it runs, once connected: device, arch, driver, compiler, generator */
    int recalled;          /* measurements and failures of these candidates that the journal already held */
    int foreign;           /* records of other GPUs or versions in the journal */
    int measured, failed, gpus;
    double start, end; /* on the monotonic clock */
};

void tuner_open(struct tuner *tuner, const struct tuner_options *options);
void tuner_close(struct tuner *tuner); /* must be disconnected */

/* Adds a problem at a shape, both texts as in records. False when memory runs out. */
bool tuner_add_cell(struct tuner *tuner, const char *problem, const struct shape *shape, const char *shape_text);

/* Adds a complete and feasible candidate to the last cell, with the digest of its source; a second one with the same
   digest is left out. False when memory runs out. */
bool tuner_add_candidate(struct tuner *tuner, const struct variant *variant, const char *digest);

/* Makes the contests after all cells and candidates have been added. False when memory runs out. */
bool tuner_begin(struct tuner *tuner);

/* Applies results of this setting to the candidates: passes go into the contests, failures remove candidates. */
void tuner_recall(struct tuner *tuner, const struct results *results);

/* Removes a kernel that failed from every contest. */
void tuner_drop(struct tuner *tuner, int kernel);

/* Computes the first 16 hex digits of the digest of a variant's source. False when it does not expand. */
enum { TUNER_DIGEST = 17 };
bool tuner_digest(const struct template_set *set, const struct variant *variant, char digest[TUNER_DIGEST]);

#endif
