/* launch: runs a grid of blocks or clusters on the CPU's cores and reports the first fault. */
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
}; /* the limits of one launch */

struct fault {
    struct text text; /* empty = none */
    int line;         /* in the kernel's source; 0 = find it from pc */
    const void *pc;   /* a code address in the statement; null = unknown */
    unsigned block, thread;
};

/* Idle blocks with their stacks. Creating a block costs more than running a small launch. */
struct block_pool {
    pthread_mutex_t lock;
    struct block *idle;
};

struct launch {
    /* filled by the caller */
    const struct attile_entry *entry;
    const void *params;
    const void *image; /* load address of the binary */
    struct memory *memory;
    struct block_pool *pool;
    enum att_host_mode mode;
    uint64_t seed; /* 0 = round robin */
    unsigned grid, threads, workers;
    unsigned cluster; /* blocks per cluster, 1 to ATTILE_CLUSTER; divides the grid */
    bool dependent;   /* may start before the previous launch has ended: its threads have to wait for that */
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
    unsigned working;                  /* workers that have not ended */
    unsigned round, looked;            /* see counters.c: workers that looked in vain in this round */
};

/* Runs the launch. Returns ATT_OK, ATT_LAUNCH_FAILED (see fault and race), or ATT_OUT_OF_MEMORY. */
enum att_status launch_run(struct launch *launch);

/* True if the address is in the kernel's binary, as its constants are. */
bool launch_owns(const struct launch *launch, uintptr_t address);

/* Records what stopped this launch, unless another fault has already stopped it. */
void launch_fault(struct launch *launch, const struct fault *fault);

void block_pool_free(struct block_pool *pool);

#endif
