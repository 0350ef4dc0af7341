/* tuned: tables of measured best schedules, as YAML text in and out. One table is for one device; a row says which
   schedule was fastest for a problem at a shape. `attile tune` writes them, att_find chooses by them (docs/tuned.md).

       device: NVIDIA H200                                   # as the driver says; `any` = every device
       measured: attile 0.1.0, NVRTC 13.0, driver 580.65.06  # with what, for people
       best:
         - problem: {family: attention_forward, dtype: bf16, head_dim: 128, mask: causal}
           shapes:
             - shape: {batch: 4, heads: 16, len_q: 4096, len_kv: 4096}
               schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 128, stages: 2}
               microseconds: 581.2                           # what it took
               margin: 1.031                                 # how many times longer the runner-up took
       deny:                                                 # out of service: never chosen, and refused when asked for
         - variant: {family: attention_forward, algorithm: flash_async, head_dim: 8}   # all variants with these knobs
           version: 0.1.0                                    # of attile; left out = every version
           because: hangs when len_kv is 1

   Knobs left out of a problem have their defaults, knobs left out of a schedule are the template's to choose.

   A lock file is a table with one more key, `lock: VERSION`: its schedules are complete, and the library that has this version
   takes them as they are, whatever a model or another table says. */
#ifndef ATTILE_TUNED_H
#define ATTILE_TUNED_H

#include "gen.h"

/* A problem has at most one row for a shape and a target. */
struct tuned_row {
    struct knobs problem;        /* as tuned_problem gives it */
    struct knobs schedule;       /* target and schedule knobs that are given; the others AUTO */
    struct shape shape;          /* where it was measured, as tuned_shape gives it */
    double microseconds, margin; /* 0 = not said */
    int line;                    /* of `shape:` in the file; 0 = not from a file */
};

struct tuned_denial {
    struct knobs knobs; /* what is given; the others AUTO */
    char *version;      /* of attile; null = every version */
    char *because;      /* never null */
    int line;
};

struct tuned {
    char *name, *device, *measured; /* name: of the file, for messages; never null */
    char *lock;                     /* of a lock file: the version of attile that it is for; else null */
    int rows, denials;
    struct tuned_row *row; /* rows of one problem stand together */
    struct tuned_denial *denial;
};

/* Read a whole table; all errors of the text in one pass. Null when there was any. A lock file of another version is an error:
   the kernels that it names may be others there. Limits: 1 MiB, 200,000 YAML events,
   otherwise as for specs. The text is not needed afterwards. */
struct tuned *tuned_read(const char *name, const char *text, size_t size, struct diag *diag);

/* A table without rows. Null: out of memory. */
struct tuned *tuned_new(const char *name, const char *device, const char *measured);
void tuned_free(struct tuned *tuned); /* accepts null */

/* Add a row, or replace the one of the same problem, shape and target. False: out of memory, and nothing has changed. */
bool tuned_put(struct tuned *tuned, const struct tuned_row *row);

/* Take a variant out of service; it is found by all its knobs. One that is denied already is not denied twice. Null version:
   every version. False: out of memory, and nothing has changed. */
bool tuned_deny(struct tuned *tuned, const struct knobs *knobs, const char *version, const char *because);

/* Make a lock file of a table whose schedules are complete. False: out of memory, and nothing has changed. */
bool tuned_lock(struct tuned *tuned);

/* Write what tuned_read reads. Equal tables give equal bytes. */
void tuned_write(const struct tuned *tuned, struct text *text);

/* What the table of a device is called: "nvidia_h200.yaml" for "NVIDIA H200". */
void tuned_file_name(const char *device, struct text *text);

/* A table that is built into this library (tuned/), by its file's name. Null when there is none. */
const char *tuned_embedded(const char *file, size_t *size);

/* Of a table as tuned_write writes it, what is said of one problem (as tuned_problem gives it) and what is said of all; all
   other lines are empty. Reading this takes a fraction of the time, and finds the same. */
void tuned_excerpt(const char *table, size_t size, const struct knobs *problem, struct text *excerpt);

/* --- asking ---------------------------------------------------------------------------------------------------- */

/* Problem and shape as a row has them, of a variant or of knobs as given: problem knobs that are AUTO get their default,
   dtype_out and head_dim_v what they follow, all other knobs become AUTO; kv_heads 0 becomes heads. */
struct knobs tuned_problem(const struct knobs *knobs);
struct shape tuned_shape(const struct shape *shape);

bool tuned_is_for(const struct tuned *tuned, const char *device);

/* Up to so many rows of Q that share a K/V head are few: the launch is bound by the bytes of K and V, and all others by
   products, so what was measured of one kind says nothing of the other. */
enum { TUNED_FEW_ROWS = 32 };

/* Rows of Q that share a K/V head: len_q * heads / kv_heads. 0 when the shape does not say; TUNED_FEW_ROWS + 1 when there
   are more. */
int64_t tuned_few_rows(const struct shape *shape);
bool tuned_has_few_rows(const struct shape *shape); /* from 1 to TUNED_FEW_ROWS */

/* Which rows count; `context` is the caller's. */
struct tuned_filter {
    bool (*accepts)(const struct tuned_row *row, const void *context); /* null: all of them */
    const void *context;
};

/* The row of this problem (as tuned_problem gives it) whose shape is nearest, or null when there is none. Rows for few rows
   of Q are nearest to such shapes, and the others to the others. Among them distance is how many times len_q, len_kv and
   batch * heads must be doubled or halved, added up, or with few rows of Q their number, len_kv and batch * kv_heads; the
   earlier of equals wins, but of rows of one shape for several targets, the fastest. Families without these sizes compare all their sizes so. */
const struct tuned_row *tuned_nearest(const struct tuned *tuned, const struct knobs *problem, const struct shape *shape,
                                      struct tuned_filter filter);

/* The problem of which schedules can be borrowed for one that has no rows of its own. It may differ in which 16-bit type it
   takes, in the type of O, and in head dimensions that are larger: what fits into registers and shared memory there
   fits here. Of several, that with the least head dimensions.

   Offer `lender` every problem with rows; it starts as knobs_filled(AUTO). True when this offer was better than those
   before. Problems are as tuned_problem gives them. */
bool tuned_offer(const struct knobs *problem, const struct knobs *offered, struct knobs *lender);

/* Offer all problems of a table, as tuned_write writes it. */
void tuned_offer_all(const struct knobs *problem, const char *table, size_t size, struct knobs *lender);

/* The first denial of this table that is for this variant and version of attile, or null. */
const struct tuned_denial *tuned_denies(const struct tuned *tuned, const struct variant *variant, const char *version);

#endif
