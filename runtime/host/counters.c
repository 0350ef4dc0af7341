/* counters: threads that wait for a counter in global memory, which other blocks advance. See cluster.h. ThreadSanitizer
   must not instrument this code. */
#include "cluster.h"

#include <sched.h>

static int value_of(const struct fiber *fiber) { return __atomic_load_n(fiber->counter.at, __ATOMIC_RELAXED); }

static void missing_count(const struct block *block, const struct fiber *fiber, struct text *text) {
    (void)block;
    text_print(text, ": the counter is %d, expected %d", value_of(fiber), fiber->counter.expected);
}

void counter_await(struct attile_block *shown, unsigned index, const int *counter, int expected, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    fiber_check_dependency(fiber, line, NULL);
    fiber->counter.at = counter;
    fiber->counter.expected = expected;
    while (value_of(fiber) != expected)
        fiber_wait(fiber, &fiber->block->cluster->counting, (struct wait){"await_count()", line, 0, missing_count});
}

static bool any_complete(const struct cluster *cluster) {
    for (const struct fiber *fiber = cluster->counting.first; fiber; fiber = fiber->next)
        if (value_of(fiber) == fiber->counter.expected)
            return true;
    return false;
}

/* A cluster that can do nothing but wait stops, and a new stop starts a new round, since what this cluster did before
   may have completed a count for others. A deadlock is a round in which every worker has looked once more, in vain. */
enum counting counters_poll(struct cluster *cluster, struct launch *launch) {
    if (!cluster->counting.first)
        return COUNTING_NONE;
    pthread_mutex_lock(&launch->lock);
    if (!cluster->stopped) {
        cluster->stopped = true;
        launch->round++;
        launch->looked = 0;
    }
    const unsigned round = launch->round;
    pthread_mutex_unlock(&launch->lock);
    if (any_complete(cluster)) {
        cluster->stopped = false;
        queue_wake(&cluster->counting);
        return COUNTING_COMPLETE;
    }
    pthread_mutex_lock(&launch->lock);
    if (round == launch->round && cluster->looked_in != round) {
        cluster->looked_in = round;
        launch->looked++;
    }
    const bool all = launch->looked == launch->working;
    pthread_mutex_unlock(&launch->lock);
    if (all)
        return COUNTING_NONE;
    sched_yield();
    return COUNTING_OTHERS;
}
