/* launch: see launch.h. The calling thread works too; helper threads exist only during a launch, so that no part of the
   device runs between launches. A seeded launch, and one under ThreadSanitizer, uses only the calling thread, which
   makes it reproducible. */
#include "launch.h"
#include "cluster.h"
#include "race.h"

#include <dlfcn.h>
#include <unistd.h>

enum { WORKERS = 64 };

void launch_fault(struct launch *launch, const struct fault *fault) {
    pthread_mutex_lock(&launch->lock);
    bool first = !atomic_exchange(&launch->stop, true);
    if (first)
        launch->fault = *fault;
    pthread_mutex_unlock(&launch->lock);
    if (!first) {
        struct text text = fault->text;
        text_free(&text);
    }
}

bool launch_owns(const struct launch *launch, uintptr_t address) {
    Dl_info info;
    return launch->image && dladdr((void *)address, &info) && info.dli_fbase == launch->image;
}

/* Takes an idle block, or creates one. */
static struct block *take_block(struct launch *launch) {
    pthread_mutex_lock(&launch->pool->lock);
    struct block *block = launch->pool->idle;
    if (block)
        launch->pool->idle = block->next;
    pthread_mutex_unlock(&launch->pool->lock);
    return block ? block : block_create();
}

static void give_block(struct launch *launch, struct block *block) {
    pthread_mutex_lock(&launch->pool->lock);
    block->next = launch->pool->idle;
    launch->pool->idle = block;
    pthread_mutex_unlock(&launch->pool->lock);
}

void block_pool_free(struct block_pool *pool) {
    while (pool->idle) {
        struct block *block = pool->idle;
        pool->idle = block->next;
        block_free(block);
    }
}

static void *work(void *argument) {
    struct launch *launch = argument;
    struct cluster cluster = {0};
    while (cluster.blocks < launch->cluster && (cluster.block[cluster.blocks] = take_block(launch)))
        cluster.blocks++;
    bool complete = cluster.blocks == launch->cluster;
    /* out of memory: other workers may still finish the grid; launch_run checks whether they did */
    for (unsigned i; complete && (i = atomic_fetch_add(&launch->next, 1)) < launch->clusters;)
        if (!cluster_run(&cluster, launch,
                         (unsigned)(((uint64_t)i * launch->stride + launch->offset) % launch->clusters)))
            break;
    pthread_mutex_lock(&launch->lock);
    launch->working--;
    pthread_mutex_unlock(&launch->lock);
    while (cluster.blocks)
        give_block(launch, cluster.block[--cluster.blocks]);
    return NULL;
}

static uint64_t divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void choose_order(struct launch *launch) {
    launch->stride = 1;
    launch->offset = 0;
    if (!launch->seed)
        return;
    uint64_t mixed = launch->seed * 0x9e3779b97f4a7c15;
    launch->offset = (unsigned)((mixed >> 32) % launch->clusters);
    launch->stride = (unsigned)(mixed % launch->clusters);
    while (divisor(launch->stride, launch->clusters) != 1) /* ends at clusters - 1 or 1 at the latest */
        launch->stride = (launch->stride + 1) % launch->clusters;
}

static unsigned count_workers(const struct launch *launch) {
    if (launch->seed || launch->mode == ATT_HOST_RACE)
        return 1;
    unsigned workers = launch->workers < WORKERS ? launch->workers : WORKERS;
    return workers < launch->clusters ? workers : launch->clusters;
}

enum att_status launch_run(struct launch *launch) {
    if (launch->grid == 0)
        return ATT_OK;
    launch->clusters = launch->grid / launch->cluster;
    pthread_mutex_init(&launch->lock, NULL);
    atomic_init(&launch->next, 0);
    atomic_init(&launch->stop, false);
    choose_order(launch);
    race_watch(launch->mode == ATT_HOST_RACE ? &launch->race : NULL);
    pthread_t helper[WORKERS];
    unsigned helpers = 0, workers = count_workers(launch);
    launch->working = workers;
    launch->round = launch->looked = 0;
    while (helpers + 1 < workers && pthread_create(&helper[helpers], NULL, work, launch) == 0)
        helpers++;
    if (helpers + 1 < workers) { /* some threads could not be created */
        pthread_mutex_lock(&launch->lock);
        launch->working -= workers - helpers - 1;
        pthread_mutex_unlock(&launch->lock);
    }
    work(launch);
    for (unsigned i = 0; i < helpers; i++)
        pthread_join(helper[i], NULL);
    race_acquire(launch); /* every thread of the kernel has ended */
    race_watch(NULL);
    pthread_mutex_destroy(&launch->lock);
    if (atomic_load(&launch->stop) || launch->race.count)
        return ATT_LAUNCH_FAILED;
    return atomic_load(&launch->next) < launch->clusters ? ATT_OUT_OF_MEMORY : ATT_OK;
}
