/* cluster: see cluster.h. */
#include "cluster.h"
#include "order.h"
#include "units.h"

/* --- the barrier of a cluster -------------------------------------------------------------------------------------- */

static void missing_threads(const struct block *block, const struct fiber *fiber, struct text *text) {
    (void)fiber;
    text_print(text, ": %u of %u threads of the cluster have arrived", block->cluster->barrier.arrived,
               block->cluster->barrier.alive);
}

static void end_phase_if_complete(struct cluster *cluster) {
    if (!cluster->barrier.arrived || cluster->barrier.arrived < cluster->barrier.alive)
        return;
    cluster->barrier.arrived = 0;
    cluster->barrier.phase++;
    queue_wake(&cluster->barrier.waiting);
}

void cluster_barrier(struct attile_block *shown, unsigned index, int wait, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct cluster *cluster = fiber->block->cluster;
    const struct block *owner = cluster->block[0];
    const char *name = wait ? "cluster_wait()" : "cluster_arrive()";
    if (fiber->at_cluster != (wait != 0))
        fiber_refuse(fiber, line, NULL, "%s, but this thread %s", name,
                     wait ? "has not arrived" : "has arrived already, and not waited since");
    fiber->at_cluster = !wait;
    if (!wait) {
        fiber->cluster_phase = cluster->barrier.phase;
        order_release(fiber, owner, ORDER_CLUSTER, fiber->cluster_phase);
        cluster->barrier.arrived++;
        end_phase_if_complete(cluster);
        return;
    }
    if (cluster->barrier.phase == fiber->cluster_phase)
        fiber_wait(fiber, &cluster->barrier.waiting, (struct wait){name, line, 0, missing_threads});
    order_acquire(fiber, owner, ORDER_CLUSTER, fiber->cluster_phase);
}

void cluster_ended(struct fiber *fiber) {
    struct cluster *cluster = fiber->block->cluster;
    if (fiber->at_cluster)
        fiber_refuse(fiber, 0, NULL, "ended between cluster_arrive() and cluster_wait()");
    cluster->barrier.alive--;
    end_phase_if_complete(cluster);
    if (cluster->blocks > 1)
        order_leave(fiber, block_ended(fiber->block));
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static bool start(struct cluster *cluster, struct launch *launch, unsigned index) {
    cluster->turn = 0;
    cluster->barrier.arrived = cluster->barrier.phase = 0;
    cluster->barrier.alive = cluster->blocks * launch->threads;
    cluster->barrier.waiting = cluster->counting = (struct queue){0};
    cluster->stopped = false;
    for (unsigned rank = 0; rank < cluster->blocks; rank++) {
        struct block *block = cluster->block[rank];
        if (!block_start(block, launch, cluster, index * cluster->blocks + rank))
            return false;
        if (cluster->blocks > 1)
            order_use_couriers(block);
    }
    return true;
}

/* Chooses the next block to run among those that can: round robin; or always the first in some order, so that it runs
   as far ahead of the others as possible; or at random. The seed decides, as for the units. Null = none can run. */
static struct block *choose(struct cluster *cluster, const struct launch *launch, bool idle) {
    unsigned blocks = cluster->blocks, first = cluster->turn + 1;
    if (launch->seed % 3 == 1)
        first = (unsigned)(launch->seed / 3 % blocks);
    else if (launch->seed)
        first = block_random(cluster->block[0], blocks);
    for (unsigned i = 0; i < blocks; i++) {
        struct block *block = cluster->block[(first + i) % blocks];
        if (block->ready_count || units_due(block, idle)) {
            cluster->turn = (first + i) % blocks;
            return block;
        }
    }
    return NULL;
}

static bool let_go(struct cluster *cluster) {
    bool any = false;
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        any = block_let_go(cluster->block[rank]) || any;
    return any;
}

static bool step(struct cluster *cluster, struct launch *launch) {
    bool idle = true;
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        idle = idle && !cluster->block[rank]->ready_count;
    struct block *block = choose(cluster, launch, idle);
    if (!block)
        return let_go(cluster) || counters_poll(cluster, launch) != COUNTING_NONE;
    if (!block->ready_count || units_due(block, idle))
        units_step(block);
    else
        block_step(block);
    return true;
}

/* Called when nothing can run. True if all threads have ended and no request is unfinished. */
static bool finish(struct cluster *cluster, struct launch *launch) {
    bool ended = true;
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        ended = ended && block_ended(cluster->block[rank]);
    for (unsigned rank = 0; ended && rank < cluster->blocks; rank++)
        if (!units_finished(cluster->block[rank]))
            return false;
    if (ended)
        return true;
    struct fault fault = {0};
    text_print(&fault.text, "deadlock: no thread can run");
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        block_explain(cluster->block[rank], &fault);
    launch_fault(launch, &fault);
    return false;
}

bool cluster_run(struct cluster *cluster, struct launch *launch, unsigned index) {
    if (!start(cluster, launch, index)) {
        struct fault fault = {.block = index * cluster->blocks};
        text_print(&fault.text, "no memory for the stacks of a block");
        launch_fault(launch, &fault);
        return false;
    }
    bool going = true;
    while (!atomic_load_explicit(&launch->stop, memory_order_relaxed) && (going = step(cluster, launch)))
        continue;
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        block_count(cluster->block[rank]);
    return !going && finish(cluster, launch);
}
