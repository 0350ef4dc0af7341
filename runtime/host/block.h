/* block: one block of a launch on the calling OS thread: each CUDA thread a fiber, which runs until it has to wait. Whoever waits does so in a wait queue; anything a later device needs
   (copy engines, named barriers, phases) is another queue and, where it acts by itself, another fiber.
   Never instrumented for ThreadSanitizer. */
#ifndef ATTILE_BLOCK_H
#define ATTILE_BLOCK_H

#include "device/abi.h"
#include "fiber.h"
#include "launch.h"

#include <stdint.h>

/* Identities for ThreadSanitizer cost a millisecond each to make, so a block uses those of the third block before it:
   what two neighbours do to the same memory is seen to be unordered, and what distant blocks do is taken on trust. */
enum { RACE_SETS = 3 };

enum { BLOCK_NO_WARP = ATTILE_THREADS };

enum fiber_state { FIBER_READY, FIBER_WAITING, FIBER_ENDED };

struct fiber {
    struct block *block;
    unsigned index;
    enum fiber_state state;
    struct fiber *next; /* in the queue it waits in */
    struct wait {
        const char *what; /* it waits in: "__syncthreads()" */
        int line;         /* ... in the kernel's source */
        unsigned object;  /* ... for these lanes, this barrier */
        void (*missing)(const struct block *block, const struct fiber *fiber, struct text *text); /* says whom for */
    } wait;
    uint64_t result; /* of the collective it took part in */
    struct {
        struct attile_copy *item; /* owned */
        unsigned first, count, room;
        unsigned groups;    /* committed */
    } copies;               /* started and not waited for: [first, count) */
    bool at_cluster;        /* has arrived at the cluster's barrier, and not waited there */
    unsigned cluster_phase; /* ... in this phase of it */
    struct context context;
    void *identity[RACE_SETS];
};

struct queue {
    struct fiber *first, *last;
};

struct barrier {
    unsigned arrived, phase;
    int line; /* where the first of this phase arrived */
    struct queue waiting;
};

enum { GROUPS = 16 }; /* sets of lanes that a warp can have waiting at once: pairs are the smallest that wait */

struct warp {
    unsigned alive; /* lanes that exist and have not ended */
    struct group {
        unsigned mask, arrived; /* arrived = 0: free */
        int operation;
        unsigned phase;
        uint64_t value[ATTILE_WARP];
        int source[ATTILE_WARP], line;
        struct queue waiting;
    } group[GROUPS];
};

struct block {
    struct attile_block *shown; /* what the kernel sees, at the start of the region */
    struct launch *launch;      /* while running */
    struct cluster *cluster;    /* while running: the blocks beside this one */
    struct context scheduler;
    struct barrier barrier;
    struct warp warp[ATTILE_THREADS / ATTILE_WARP];
    struct fiber fiber[ATTILE_THREADS];
    struct fiber *ready[ATTILE_THREADS]; /* a ring */
    unsigned first, ready_count, ended;
    uint64_t random;                 /* state of the seeded schedule; 0 = round robin */
    struct fiber *back[ATTILE_WARP]; /* ready threads of the warp that is held back */
    unsigned back_count, held_warp;  /* its index; BLOCK_NO_WARP = none */
    unsigned guarded;                /* stacks that have their guard pages */
    unsigned runs;                   /* blocks run so far */
    unsigned char *region;           /* stacks, see device/abi.h */
    unsigned char *shared;           /* LAUNCH_SHARED bytes */
    struct units *units;             /* Hopper's, see units.h */
    char *order;                     /* see order.h; null except in race mode */
    struct courier {
        void *identity[RACE_SETS];
        unsigned run; /* of the block that it was last made for */
    } courier[ATTILE_THREADS / ATTILE_WARP];
    bool couriers;        /* this block has them */
    void *end[RACE_SETS]; /* see order_leave */
    struct block *next;   /* in the device's list of idle ones */
};

/* Room for a block of any launch; null = out of memory. */
struct block *block_create(void);
void block_free(struct block *block); /* accepts null */

/* Make it block `index` of the launch, with all its threads ready. False = no memory. Then cluster.c lets it run. */
bool block_start(struct block *block, struct launch *launch, struct cluster *cluster, unsigned index);
/* Let one of the ready threads run until it waits or ends; there must be one. */
void block_step(struct block *block);
/* No other thread can run: release the warp that was held back, and hold back another one. False = none was. */
bool block_let_go(struct block *block);
static inline bool block_ended(const struct block *block) { return block->ended == block->shown->threads; }
/* For a deadlock report: where threads wait, one line for threads in the same situation. */
void block_explain(const struct block *block, struct fault *fault);
/* Add what it counted to the launch's counters. */
void block_count(struct block *block);

/* For the words that wait. Between the two, other fibers run. */
void fiber_wait(struct fiber *fiber, struct queue *queue, struct wait wait);
void queue_wake(struct queue *queue);

/* When copies of threads (cp.async) land, as a launch's seed decides: in the wait for them (0 and multiples of 3), at once
   (3 n + 1), or each as chance has it (3 n + 2). */
enum copies_timing { COPIES_LATE, COPIES_EARLY, COPIES_RANDOM };
static inline enum copies_timing copies_timing(uint64_t seed) { return (enum copies_timing)(seed % 3); }

/* A number below `limit`, of the seeded schedule. */
unsigned block_random(struct block *block, unsigned limit);

static inline struct fiber *fiber_of(struct attile_block *shown, unsigned index) {
    return &((struct block *)shown->device)->fiber[index];
}

/* Give this launch up: notes the fault if it is the first, and never returns. */
_Noreturn void fiber_refuse(struct fiber *fiber, int line, const void *pc, const char *format, ...) TEXT_PRINTF(4, 5);

/* warp_unit.c: what the last lane to arrive does for all, given each lane's value. Refuses through `fiber`, one of them. */
void warp_find_rows(struct fiber *fiber, const uint64_t value[ATTILE_WARP], int line);
void warp_multiply(const uint64_t value[ATTILE_WARP]);

/* collective.c: what kernels call through struct attile_host. */
void collective_barrier(struct attile_block *shown, unsigned index, int line);
unsigned long long collective_warp(struct attile_block *shown, unsigned index, int operation, unsigned mask,
                                   unsigned long long value, int source, int line);
void collective_ended(struct fiber *fiber); /* this thread will not arrive anywhere again */
void collective_reset(struct block *block);

#endif
