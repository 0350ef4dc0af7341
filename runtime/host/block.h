/* block: runs one block of a launch on the calling OS thread. Each CUDA thread is a fiber, which runs until it has to
   wait in a queue. Barriers and copies of later devices add queues; a unit that acts on its own is stepped between
   fibers (units.h). ThreadSanitizer must not instrument this code. */
#ifndef ATTILE_BLOCK_H
#define ATTILE_BLOCK_H

#include "device/abi.h"
#include "fiber.h"
#include "launch.h"

#include <stdint.h>

/* ThreadSanitizer takes a millisecond to create an identity, so a block reuses those of the block three before it.
   Races between neighbouring blocks are found; races between blocks that share identities are not. */
enum { RACE_SETS = 3 };

enum { BLOCK_NO_WARP = ATTILE_THREADS };

enum fiber_state { FIBER_READY, FIBER_WAITING, FIBER_ENDED };

struct fiber {
    struct block *block;
    unsigned index;
    enum fiber_state state;
    struct fiber *next; /* in the queue where it waits */
    struct wait {
        const char *what; /* the call that waits: "__syncthreads()" */
        int line;         /* of that call in the kernel's source */
        unsigned object;  /* the lane mask, or the number of the barrier */
        void (*missing)(const struct block *block, const struct fiber *fiber,
                        struct text *text); /* prints what has not arrived yet */
    } wait;
    uint64_t result; /* of its last collective */
    struct {
        const int *at;
        int expected;
    } counter; /* that it waits for, or waited for last */
    struct {
        struct attile_copy *item; /* owned */
        unsigned first, count, room;
        unsigned groups;    /* committed */
    } copies;               /* started but not yet waited for: [first, count) */
    bool depends;           /* on the previous launch: may not access global memory yet */
    bool waits;             /* has to wait for the end of the previous launch before it ends */
    bool at_cluster;        /* has arrived at the cluster's barrier but not yet waited there */
    unsigned cluster_phase; /* the phase in which it arrived */
    struct context context;
    void *identity[RACE_SETS];
};

struct queue {
    struct fiber *first, *last;
};

struct barrier {
    unsigned arrived, phase;
    int line; /* of the first arrival of this phase */
    struct queue waiting;
};

enum { GROUPS = 16 }; /* a warp has 32 lanes and a group that waits has at least two */

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
    struct attile_block *shown; /* the part that the kernel sees, at the start of the region */
    struct launch *launch;      /* while running */
    struct cluster *cluster;    /* while running */
    struct context scheduler;
    struct barrier barrier;
    struct warp warp[ATTILE_THREADS / ATTILE_WARP];
    struct fiber fiber[ATTILE_THREADS];
    struct fiber *ready[ATTILE_THREADS]; /* a ring */
    unsigned first, ready_count, ended;
    uint64_t random;                 /* state of the seeded schedule; 0 = round robin */
    struct fiber *back[ATTILE_WARP]; /* ready threads of the warp that the schedule holds back */
    unsigned back_count, held_warp;  /* the warp's index; BLOCK_NO_WARP = none */
    unsigned guarded;                /* stacks that have guard pages */
    unsigned runs;                   /* blocks run so far */
    unsigned char *region;           /* stacks, see device/abi.h */
    unsigned char *shared;           /* LAUNCH_SHARED bytes */
    struct units *units;             /* Hopper's, see units.h */
    char *order;                     /* see order.h; null except in race mode */
    struct courier {
        void *identity[RACE_SETS];
        unsigned run; /* value of block->runs when it was made */
    } courier[ATTILE_THREADS / ATTILE_WARP];
    bool couriers;        /* this block uses them */
    void *end[RACE_SETS]; /* see order_leave */
    struct block *next;   /* in the device's list of idle ones */
};

/* Allocates a block for any launch; null = out of memory. */
struct block *block_create(void);
void block_free(struct block *block); /* accepts null */

/* Prepares the block as block `index` of the launch, with all threads ready; cluster_run then runs it. False = out of
   memory. */
bool block_start(struct block *block, struct launch *launch, struct cluster *cluster, unsigned index);
/* Runs one ready thread, of which there must be one, until it waits or ends. */
void block_step(struct block *block);
/* Called when no other thread can run: releases the warp that is held back and holds back another. False = none was
   held back. */
bool block_let_go(struct block *block);
static inline bool block_ended(const struct block *block) { return block->ended == block->shown->threads; }
/* For a deadlock report: prints where threads wait, one line for all threads that wait at the same place. */
void block_explain(const struct block *block, struct fault *fault);
/* Adds the block's counters to those of the launch. */
void block_count(struct block *block);

/* A device function that has to wait calls fiber_wait; the other fibers run until queue_wake. */
void fiber_wait(struct fiber *fiber, struct queue *queue, struct wait wait);
void queue_wake(struct queue *queue);

/* When a cp.async completes. The launch's seed decides: in the wait for it (seed % 3 = 0), at once (1), or at random
   (2). */
enum copies_timing { COPIES_LATE, COPIES_EARLY, COPIES_RANDOM };
static inline enum copies_timing copies_timing(uint64_t seed) { return (enum copies_timing)(seed % 3); }

/* Returns a random number below `limit` from the seeded schedule. */
unsigned block_random(struct block *block, unsigned limit);

static inline struct fiber *fiber_of(struct attile_block *shown, unsigned index) {
    return &((struct block *)shown->device)->fiber[index];
}

/* Stops this launch: records the fault if it is the first. Never returns. */
_Noreturn void fiber_refuse(struct fiber *fiber, int line, const void *pc, const char *format, ...) TEXT_PRINTF(4, 5);

/* Refuses an access to global memory before grid_dependency_wait(). */
void fiber_check_dependency(struct fiber *fiber, int line, const void *pc);

/* mma.c: the last lane to arrive calls these for the whole warp, with each lane's value. Faults are reported for
   `fiber`. */
void warp_find_rows(struct fiber *fiber, const uint64_t value[ATTILE_WARP], int line);
void warp_multiply(const uint64_t value[ATTILE_WARP]);

/* collective.c: kernels call these through struct attile_host. */
void collective_barrier(struct attile_block *shown, unsigned index, int line);
unsigned long long collective_warp(struct attile_block *shown, unsigned index, int operation, unsigned mask,
                                   unsigned long long value, int source, int line);
void collective_ended(struct fiber *fiber); /* this thread will not arrive at any barrier again */
void collective_reset(struct block *block);

#endif
