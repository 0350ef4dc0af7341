/* pool: compiles many variants in parallel, each in a worker process, so that a compiler that crashes or hangs ends
   only that process. Compiled kernels go into the kernel cache. */
#ifndef ATTILE_POOL_H
#define ATTILE_POOL_H

#include "attile.h"
#include "gen.h"
#include "worker.h"

enum compile_outcome {
    COMPILE_NOT_TRIED, /* interrupted before it was tried */
    COMPILE_GOOD,
    COMPILE_REFUSED, /* by the compiler, or by our check of its output: message */
    COMPILE_CRASHED, /* the worker died: the message says how */
    COMPILE_HUNG     /* exceeded the timeout: killed */
};
const char *compile_outcome_name(enum compile_outcome outcome); /* "good", ... */

struct compiled {
    enum compile_outcome outcome;
    enum att_status status;                                          /* of a refusal; ATT_NO_COMPILER ends it all */
    int registers, spill_bytes, shared_bytes, threads, instructions; /* -1 = not known */
    double seconds; /* compile time, now or when the kernel was cached */
    char message[1024];
};

struct pool_options {
    const char *arch;         /* target architecture: "sm_90a" */
    const char *template_dir; /* null = built in */
    int jobs;                 /* processes; 0 = one per processor */
    double timeout;           /* seconds for one variant */
    worker_body *body; /* null = the compiler; others are for tests. Receives struct variant, sends struct compiled */
    bool (*interrupted)(void);                                   /* null = never */
    void (*progress)(void *context, int done, const char *name); /* null = none */
    void *context;
};

/* Compiles all variants; result[i] belongs to variant[i]. False with a sentence in *error when no worker starts, there
   is no compiler, or memory runs out; what was compiled until then stays in `result`. */
bool pool_compile(const struct pool_options *options, const struct variant *variant, int count, struct compiled *result,
                  struct text *error);

#endif
