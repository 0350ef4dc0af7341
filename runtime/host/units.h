/* units: what a Hopper SM has beside its threads: named and transaction barriers, registers that move between
   warpgroups, TMA and the tensor cores (wgmma).

   The two units work by themselves. What a thread asks them for may be done at once, when nothing else can run, or at any
   time between: which, a launch's seed decides (0 and multiples of 3: at once; 3 n + 1: last; 3 n + 2: at random). From
   the asking to the end of the wait, what will be overwritten is NaN. */
#ifndef ATTILE_HOST_UNITS_H
#define ATTILE_HOST_UNITS_H

#include "block.h"
#include "order.h"
#include "tensor_map.h"

enum {
    UNITS_COPIES = 256,     /* under way in one block */
    UNITS_PRODUCTS = 128,   /* ... of one warpgroup; a multiple of ORDER_PRODUCTS */
    UNITS_ACCUMULATORS = 8, /* ... of one warpgroup */
    UNITS_GROUPS = 64,      /* ... of one thread */
    UNITS_ROWS = 64,        /* of a product */
    UNITS_DEPTH = 16,
    UNITS_COLUMNS = 256
};

enum units_timing { UNITS_EARLY, UNITS_LATE, UNITS_RANDOM };

struct named {
    unsigned arrived, expected, phase;
    int line; /* where the first of this phase arrived */
    struct queue waiting;
};

/* Its 8 bytes of shared memory only say that it was made; what it counts is here. */
struct transaction {
    struct block *block; /* whose shared memory it is in */
    unsigned long long *word;
    unsigned arrivals, pending, phase; /* expected in each phase; still to come in this one; phases done */
    int bytes;                         /* still to come in this phase */
    struct queue waiting;
};

struct copy {
    struct host_map map;
    size_t shared; /* offset */
    int place[4];
    bool load;
    struct transaction *barrier[ATTILE_CLUSTER]; /* of each rank of the cluster that a load goes to; else null */
    struct fiber *fiber;                         /* who asked for it */
    unsigned copier;
    const void *pc;
};

/* 64 rows of sums, while the tensor cores work on them. */
struct accumulator {
    float
        *part[ATTILE_WARPGROUP]; /* the registers of each thread that have been taken over; null = not, or given back */
    unsigned last[ATTILE_WARPGROUP]; /* product of that thread on it, counted from 1 */
    unsigned parts;                  /* not null; 0 = free */
    int columns;
    float sum[UNITS_ROWS * UNITS_COLUMNS]; /* (row, column) */
};

struct product {
    struct accumulator *accumulator;
    const unsigned *a[ATTILE_WARPGROUP]; /* registers of each thread; null = in shared memory */
    struct attile_product common;
    unsigned asked; /* threads */
    int line;       /* where the first asked for it */
    const void *pc;
};

struct warpgroup {
    struct product product[UNITS_PRODUCTS];              /* the n-th in slot n % UNITS_PRODUCTS */
    unsigned asked, done;                                /* by all threads; finished: counts */
    struct accumulator *accumulator[UNITS_ACCUMULATORS]; /* owned; null = not made yet */
    struct queue waiting;
    void *identity[RACE_SETS];
};

struct units_thread {
    unsigned registers;
    unsigned stores;                          /* not yet in a group */
    unsigned grouped;                         /* in groups, not waited for */
    unsigned storing;                         /* ... and not done by TMA */
    bool fenced;                              /* since the last wait for products */
    unsigned products;                        /* asked for */
    unsigned group_end[UNITS_GROUPS], groups; /* products before the end of a group, groups so far */
};

struct units {
    enum units_timing timing;
    struct named named[ORDER_NAMED_BARRIERS];
    struct transaction transaction[ORDER_TRANSACTION_BARRIERS];
    unsigned transactions;
    struct copy copy[UNITS_COPIES];
    unsigned copies, copies_asked; /* under way; so far */
    void *copier[ORDER_COPIERS][RACE_SETS];
    struct queue storing;
    unsigned registers; /* nobody's, a thread each */
    struct queue registers_waiting;
    struct warpgroup warpgroup[ORDER_WARPGROUPS];
    struct units_thread thread[ATTILE_THREADS];
};

static inline struct units_thread *units_thread_of(const struct fiber *fiber) {
    return &fiber->block->units->thread[fiber->index];
}

struct units *units_create(void); /* null = out of memory */
void units_free(struct units *units);
void units_reset(struct block *block);

/* Should a unit act now, before the next thread? Then units_step lets it. */
bool units_due(struct block *block, bool idle);
void units_step(struct block *block);

/* A thread ends, or all have: refuses, or sets the launch's fault, when something is left undone. */
void units_ended(struct fiber *fiber);
bool units_finished(struct block *block);

/* barriers.c: what kernels call, and what TMA does to a barrier. */
void units_named(struct attile_block *shown, unsigned index, int id, int threads, int wait, int line);
void units_transaction(struct attile_block *shown, unsigned index, int operation, void *word, int value, int line);
void units_registers(struct attile_block *shown, unsigned index, int count, int acquire, int line);
/* In the shared memory of `owner`, at the place that `word` has in the fiber's own; refuses when there is none. */
struct transaction *transaction_find(struct fiber *fiber, struct block *owner, const void *word, int line);
void transaction_bytes(struct transaction *transaction, int bytes);
unsigned transaction_slot(const struct transaction *transaction);

/* copy_unit.c */
void units_box(struct attile_block *shown, unsigned index, const struct attile_box *box, int line);
void units_boxes(struct attile_block *shown, unsigned index, int operation, int line);
void copy_run(struct block *block, unsigned which); /* of units->copy */

/* matrix_unit.c */
void units_product(struct attile_block *shown, unsigned index, const struct attile_product *product, int line);
void units_products(struct attile_block *shown, unsigned index, int operation, int pending, int line);
void product_run(struct block *block, struct warpgroup *warpgroup); /* the oldest */

#endif
