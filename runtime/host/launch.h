/* launch: runs a grid of blocks, or clusters of them, on this CPU's cores and says what went wrong first. */
#ifndef ATTILE_HOST_LAUNCH_H
#define ATTILE_HOST_LAUNCH_H

#include "attile.h"
#include "device/abi.h"
#include "memory.h"
#include "race.h"
#include "text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct block;

enum {
    LAUNCH_THREADS = ATTILE_THREADS,
    LAUNCH_PARAMS = 4096,
    LAUNCH_SHARED = 227 * 1024
}; /* what one launch may have at most */

struct fault {
    struct text text; /* empty = none */
    int line;         /* in the kernel's source; 0 = see pc */
    const void *pc;   /* code address in the statement; null = not known */
    unsigned block, thread;
};

/* Blocks not in use, with their stacks: making them costs more than running a small launch. */
struct block_pool {
    pthread_mutex_t lock;
    struct block *idle;
};

struct launch {
    /* filled by the caller */
    const struct attile_entry *entry;
    const void *params;
    const void *image; /* where the binary was loaded */
    struct memory *memory;
    struct block_pool *pool;
    enum att_host_mode mode;
    uint64_t seed; /* 0 = round robin */
    unsigned grid, threads, workers;
    unsigned cluster; /* blocks side by side, 1 to ATTILE_CLUSTER; divides the grid */
    size_t shared;
    /* the result */
    struct fault fault; /* text owned by the caller */
    struct race race;   /* in race mode */
    struct att_counters counters;
    /* while running */
    pthread_mutex_t lock;
    atomic_uint next;
    atomic_bool stop;
    unsigned clusters, stride, offset; /* the order of clusters: (stride i + offset) mod clusters */
};

/* Run it. ATT_OK, ATT_LAUNCH_FAILED (see fault and race), or ATT_OUT_OF_MEMORY. */
enum att_status launch_run(struct launch *launch);

/* Does this address lie in the kernel's binary: a constant of its own? */
bool launch_owns(const struct launch *launch, uintptr_t address);

/* Note what stopped this launch, unless something already did. */
void launch_fault(struct launch *launch, const struct fault *fault);

void block_pool_free(struct block_pool *pool);

#endif
