/* tuned: tables of measured best schedules, as YAML text in and out. A table is for one device; a row says which
   schedule was fastest for a problem at a shape. `attile tune` writes them, att_find chooses by them (docs/tuned.md).

       device: NVIDIA H200                                   # as the driver reports it; `any` = every device
       measured: attile 0.1.0, NVRTC 13.0, driver 580.65.06  # the software used, for people
       best:
         - problem: {family: attention_forward, dtype: bf16, head_dim: 128, mask: causal}
           shapes:
             - shape: {batch: 4, heads: 16, len_q: 4096, len_kv: 4096}
               schedule: {target: sm_90a, algorithm: flash_async, block_m: 128, block_n: 128, stages: 2}
               microseconds: 581.2                           # measured time
               margin: 1.031                                 # how many times longer the runner-up took
       deny:                                                 # out of service: never chosen, and refused on request
         - variant: {family: attention_forward, algorithm: flash_async, head_dim: 8}   # all variants with these knobs
           version: 0.1.0                                    # of attile; left out = every version
           because: hangs when len_kv is 1

   Knobs left out of a problem have their defaults; the template chooses knobs left out of a schedule.

   A lock file is a table with one more key, `lock: VERSION`: its schedules are complete, and the library with this
   version uses them unchanged, regardless of a model or another table. */
#ifndef ATTILE_TUNED_H
#define ATTILE_TUNED_H

#include "gen.h"

/* A problem has at most one row for a shape and a target. */
struct tuned_row {
    struct knobs problem;        /* as tuned_problem returns it */
    struct knobs schedule;       /* target and schedule knobs that are given; the others AUTO */
    struct shape shape;          /* the measured shape, as tuned_shape returns it */
    double microseconds, margin; /* 0 = not given */
    int line;                    /* of `shape:` in the file; 0 = not from a file */
};

struct tuned_denial {
    struct knobs knobs; /* the given knobs; the others AUTO */
    char *version;      /* of attile; null = every version */
    char *because;      /* never null */
    int line;
};

struct tuned {
    char *name, *device, *measured; /* name: of the file, for messages; never null */
    char *lock;                     /* of a lock file: the version of attile that it is for; else null */
    int rows, denials;
    struct tuned_row *row; /* rows of one problem are adjacent */
    struct tuned_denial *denial;
};

/* Reads a whole table and reports all errors of the text in one pass. Null if there is any. A lock file of another
   version is an error: its names may denote different kernels there. Limits: 1 MiB, 200,000 YAML events, otherwise as
   for specs. The text is not needed afterwards. */
struct tuned *tuned_read(const char *name, const char *text, size_t size, struct diag *diag);

/* Makes a table without rows. Null: out of memory. */
struct tuned *tuned_new(const char *name, const char *device, const char *measured);
void tuned_free(struct tuned *tuned); /* accepts null */

/* Adds a row, or replaces the one of the same problem, shape and target. False: out of memory, and nothing has
   changed. */
bool tuned_put(struct tuned *tuned, const struct tuned_row *row);

/* Takes a variant, identified by all its knobs, out of service. A variant is not denied twice. Null version: every
   version. False: out of memory, and nothing has changed. */
bool tuned_deny(struct tuned *tuned, const struct knobs *knobs, const char *version, const char *because);

/* Turns a table whose schedules are complete into a lock file. False: out of memory, and nothing has changed. */
bool tuned_lock(struct tuned *tuned);

/* Writes the format that tuned_read reads. Equal tables give equal bytes. */
void tuned_write(const struct tuned *tuned, struct text *text);

/* Prints the file name of a device's table: "nvidia_h200.yaml" for "NVIDIA H200". */
void tuned_file_name(const char *device, struct text *text);

/* Returns a table that is built into this library (tuned/), by its file name. Null if there is none. */
const char *tuned_embedded(const char *file, size_t *size);

/* Extracts from a table as tuned_write writes it the lines about one problem (as tuned_problem returns it) and those
   about all problems; all other lines become empty. Reading the excerpt takes a fraction of the time and gives the same
   result. */
void tuned_excerpt(const char *table, size_t size, const struct knobs *problem, struct text *excerpt);

/* --- asking ---------------------------------------------------------------------------------------------------- */

/* Returns the problem and the shape in the form of a row, for a variant or for given knobs: AUTO problem knobs get
   their defaults, dtype_out and head_dim_v the value that they follow, all other knobs become AUTO; kv_heads 0 becomes
   heads. */
struct knobs tuned_problem(const struct knobs *knobs);
struct shape tuned_shape(const struct shape *shape);

bool tuned_is_for(const struct tuned *tuned, const char *device);

/* Up to this many rows of Q that share a K/V head are few: such a launch is bound by the bytes of K and V, all others
   by products, so measurements of one kind say nothing about the other. */
enum { TUNED_FEW_ROWS = 32 };

/* Returns the number of rows of Q that share a K/V head: len_q * heads / kv_heads. 0 if the shape does not say;
   TUNED_FEW_ROWS + 1 if there are more. */
int64_t tuned_few_rows(const struct shape *shape);
bool tuned_has_few_rows(const struct shape *shape); /* from 1 to TUNED_FEW_ROWS */

/* Which rows count; `context` is the caller's. */
struct tuned_filter {
    bool (*accepts)(const struct tuned_row *row, const void *context); /* null: all of them */
    const void *context;
};

/* How far two shapes are from each other: how many times len_q, len_kv and batch * heads must be doubled or halved,
   added up; with few rows of Q, their number, len_kv and batch * kv_heads. Shapes with few rows of Q are farthest from
   those with more. Families without these sizes compare all their sizes in this way. */
double tuned_distance(int family, const struct shape *a, const struct shape *b);

/* Returns the row of this problem (as tuned_problem returns it) with the nearest shape, or null if there is none. The
   earlier of equals wins, but among rows of one shape for several targets, the fastest. */
const struct tuned_row *tuned_nearest(const struct tuned *tuned, const struct knobs *problem, const struct shape *shape,
                                      struct tuned_filter filter);

/* Finds the problem whose schedules can be borrowed for a problem without rows of its own. It may differ in its 16-bit
   input type and the type of O, and may have larger head dimensions: what fits into registers and shared memory there
   fits here. Among several, the one with the smallest head dimensions wins.

   Offer `lender` every problem with rows; it starts as knobs_filled(AUTO). True if this offer is better than the
   previous ones. Problems are as tuned_problem returns them. */
bool tuned_offer(const struct knobs *problem, const struct knobs *offered, struct knobs *lender);

/* Offers all problems of a table, as tuned_write writes it. */
void tuned_offer_all(const struct knobs *problem, const char *table, size_t size, struct knobs *lender);

/* Returns the first denial of this table that applies to this variant and version of attile, or null. */
const struct tuned_denial *tuned_denies(const struct tuned *tuned, const struct variant *variant, const char *version);

#endif
