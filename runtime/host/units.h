/* units: what Hopper adds to a block: named barriers, transaction barriers (mbarrier), setmaxnreg, and two asynchronous
   units, TMA and the tensor cores (wgmma).

   A request to a unit may complete at once, when nothing else can run, or at any time in between. The launch's seed
   decides: at once (seed % 3 = 0), last (1), at random (2). The destination is NaN from the request to the end of the
   wait. */
#ifndef ATTILE_HOST_UNITS_H
#define ATTILE_HOST_UNITS_H

#include "block.h"
#include "order.h"
#include "tensor_map.h"

enum {
    UNITS_COPIES = 256,     /* in flight in one block */
    UNITS_PRODUCTS = 128,   /* in flight in one warpgroup; a multiple of ORDER_PRODUCTS */
    UNITS_ACCUMULATORS = 8, /* in use in one warpgroup */
    UNITS_GROUPS = 64,      /* unfinished commit groups of one thread */
    UNITS_ROWS = 64,        /* M, K and the largest N of a product */
    UNITS_DEPTH = 16,
    UNITS_COLUMNS = 256
};

enum units_timing { UNITS_EARLY, UNITS_LATE, UNITS_RANDOM };

struct named {
    unsigned arrived, expected, phase;
    int line; /* of the first arrival in this phase */
    struct queue waiting;
};

/* An mbarrier. Its 8 bytes of shared memory only mark it as initialised; the state is here. */
struct transaction {
    struct block *block; /* the block whose shared memory has it */
    unsigned long long *word;
    unsigned arrivals, pending, phase; /* expected per phase, outstanding in this phase, phases completed */
    int bytes;                         /* outstanding in this phase */
    struct queue waiting;
};

struct copy {
    struct host_map map; /* for a box, with its place */
    int place[4];
    float *floats; /* which are loaded, stored or added to, in global memory; null = a box is copied */
    bool adds;     /* to these floats */
    bool sent;     /* the floats are in shared memory of the requester's block */
    size_t bytes;  /* of the floats */
    size_t shared; /* offset */
    bool load;
    struct transaction *barrier[ATTILE_CLUSTER]; /* by rank, of each block that a load writes to; others null */
    struct fiber *fiber;                         /* the requester */
    unsigned copier;
    const void *pc;
};

/* 64 rows of sums while the tensor cores own them. */
struct accumulator {
    float *part[ATTILE_WARPGROUP];   /* the registers of each thread that the unit owns; null = none */
    unsigned last[ATTILE_WARPGROUP]; /* that thread's last product on it, counted from 1 */
    unsigned parts;                  /* number of entries of part[] that are not null; 0 = free */
    int columns;
    float sum[UNITS_ROWS * UNITS_COLUMNS]; /* (row, column) */
};

struct product {
    struct accumulator *accumulator;
    const unsigned *a[ATTILE_WARPGROUP]; /* registers of each thread; null = in shared memory */
    struct attile_product common;
    unsigned asked; /* threads that have issued it */
    int line;       /* of the first thread's instruction */
    const void *pc;
};

struct warpgroup {
    struct product product[UNITS_PRODUCTS];              /* the n-th in slot n % UNITS_PRODUCTS */
    unsigned asked, done;                                /* products issued by all threads, products finished */
    struct accumulator *accumulator[UNITS_ACCUMULATORS]; /* owned; null = not allocated yet */
    struct queue waiting;
    void *identity[RACE_SETS];
};

struct units_thread {
    unsigned registers;
    unsigned stores;                          /* not yet in a bulk group */
    unsigned grouped;                         /* in bulk groups, not yet waited for */
    unsigned storing;                         /* of both, not finished */
    bool fenced;                              /* wgmma.fence since the last wait for products */
    unsigned products;                        /* issued */
    unsigned group_end[UNITS_GROUPS], groups; /* products before the end of each commit group; groups so far */
};

struct units {
    enum units_timing timing;
    struct named named[ORDER_NAMED_BARRIERS];
    struct transaction transaction[ORDER_TRANSACTION_BARRIERS];
    unsigned transactions;
    struct copy copy[UNITS_COPIES];
    unsigned copies, copies_asked; /* in flight; requested so far */
    void *copier[ORDER_COPIERS][RACE_SETS];
    struct queue storing;
    unsigned registers; /* in the pool, counted per thread */
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

/* True if a unit should act now, before the next thread runs; units_step then runs it. */
bool units_due(struct block *block, bool idle);
void units_step(struct block *block);

/* Called when a thread ends, and when all have ended: a request that no thread waited for is a fault. */
void units_ended(struct fiber *fiber);
bool units_finished(struct block *block);

/* barriers.c: called by kernels; and for the bytes that TMA delivers to a barrier. */
void units_named(struct attile_block *shown, unsigned index, int id, int threads, int wait, int line);
void units_transaction(struct attile_block *shown, unsigned index, int operation, void *word, int value, int line);
void units_registers(struct attile_block *shown, unsigned index, int count, int acquire, int line);
/* Returns the barrier in the shared memory of `owner` at the offset that `word` has in the fiber's own; no barrier
   there is a fault. */
struct transaction *transaction_find(struct fiber *fiber, struct block *owner, const void *word, int line);
void transaction_bytes(struct transaction *transaction, int bytes);
unsigned transaction_slot(const struct transaction *transaction);

/* tma.c */
void units_box(struct attile_block *shown, unsigned index, const struct attile_box *box, int line);
void units_floats(struct attile_block *shown, unsigned index, const struct attile_floats *floats, int line);
void units_send(struct attile_block *shown, unsigned index, const struct attile_sent *sent, int line);
void units_boxes(struct attile_block *shown, unsigned index, int operation, int line);
void copy_run(struct block *block, unsigned which); /* of units->copy */

/* wgmma.c */
void units_product(struct attile_block *shown, unsigned index, const struct attile_product *product, int line);
void units_products(struct attile_block *shown, unsigned index, int operation, int pending, int line);
void product_run(struct block *block, struct warpgroup *warpgroup); /* the oldest */

#endif
