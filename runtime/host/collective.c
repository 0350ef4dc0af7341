/* collective: barriers of a block, and shuffles, votes and syncs of a warp. The last to arrive does the work and wakes
   the others. Only what orders memory on the hardware orders it for ThreadSanitizer: __syncthreads and __syncwarp. */
#include "block.h"
#include "race.h"

#include <string.h>

static struct block *block_of(struct fiber *fiber) { return (struct block *)fiber->thread.block; }

void collective_reset(struct block *block) {
    unsigned warps = (block->threads + ATTILE_WARP - 1) / ATTILE_WARP;
    block->barrier = (struct barrier){0};
    memset(block->warp, 0, warps * sizeof *block->warp);
}

void collective_barrier(struct attile_thread *thread, int line) {
    struct fiber *fiber = (struct fiber *)thread;
    struct block *block = block_of(fiber);
    struct barrier *barrier = &block->barrier;
    void *order = &barrier->order[barrier->phase & 1];
    if (barrier->arrived && barrier->line != line)
        fiber_refuse(fiber, line, NULL,
                     "divergent __syncthreads(): this thread is at line %d while %u others wait at line %d", line,
                     barrier->arrived, barrier->line);
    race_release(order);
    barrier->line = line;
    if (++barrier->arrived < block->shown.threads)
        fiber_wait(fiber, &barrier->waiting, "__syncthreads()", line, 0);
    else {
        barrier->arrived = 0;
        barrier->phase++;
        queue_wake(block, &barrier->waiting);
    }
    race_acquire(order);
}

static const char *const collective_name[] = {
    [ATTILE_SYNC] = "__syncwarp()", [ATTILE_PICK] = "a warp shuffle", [ATTILE_BALLOT] = "a warp vote"};

/* Lanes of the warp that exist and have not ended. */
static unsigned alive(struct block *block, unsigned warp) {
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < ATTILE_WARP; lane++) {
        unsigned index = warp * ATTILE_WARP + lane;
        if (index < block->shown.threads && block_fiber(block, index)->state != FIBER_ENDED)
            lanes |= 1u << lane;
    }
    return lanes;
}

static struct group *find_group(struct warp *warp, unsigned mask) {
    struct group *unused = NULL;
    for (int i = 0; i < GROUPS; i++) {
        struct group *group = &warp->group[i];
        if (group->arrived && group->mask == mask)
            return group;
        if (!group->arrived && (!unused || group->mask == mask)) /* the same again, so that its phase goes on */
            unused = group;
    }
    return unused;
}

static void finish(struct block *block, unsigned warp, struct group *group) {
    uint64_t ballot = 0;
    for (unsigned lane = 0; lane < ATTILE_WARP; lane++)
        if (group->arrived >> lane & 1 && group->value[lane])
            ballot |= 1u << lane;
    for (unsigned lane = 0; lane < ATTILE_WARP; lane++)
        if (group->arrived >> lane & 1) {
            struct fiber *fiber = block_fiber(block, warp * ATTILE_WARP + lane);
            fiber->result = group->operation == ATTILE_PICK ? group->value[group->source[lane]] : ballot;
        }
    group->arrived = 0;
    group->phase++;
    queue_wake(block, &group->waiting);
}

unsigned long long collective_warp(struct attile_thread *thread, int operation, unsigned mask, unsigned long long value,
                                   int source, int line) {
    struct fiber *fiber = (struct fiber *)thread;
    struct block *block = block_of(fiber);
    unsigned warp = thread->index / ATTILE_WARP, lane = thread->index % ATTILE_WARP;
    const char *name = collective_name[operation];
    if (!(mask >> lane & 1))
        fiber_refuse(fiber, line, NULL, "%s with mask 0x%08x, which leaves out the calling lane %u", name, mask, lane);
    unsigned expected = mask & alive(block, warp);
    if (operation == ATTILE_PICK && !(expected >> source & 1))
        fiber_refuse(fiber, line, NULL, "%s from lane %d, which %s: the value is undefined", name, source,
                     mask >> source & 1 ? "has ended or does not exist" : "is not in the mask");
    struct group *group = find_group(&block->warp[warp], mask);
    if (!group)
        fiber_refuse(fiber, line, NULL, "%s with mask 0x%08x: too many sets of lanes of this warp wait already", name,
                     mask);
    if (group->arrived && group->operation != operation)
        fiber_refuse(fiber, line, NULL,
                     "divergent warp: this thread is in %s, line %d, others with mask 0x%08x are in %s, line %d", name,
                     line, mask, collective_name[group->operation], group->line);
    if (!group->arrived) {
        group->mask = mask;
        group->operation = operation;
        group->line = line;
    }
    void *order = &group->order[group->phase & 1];
    if (operation == ATTILE_SYNC)
        race_release(order);
    group->value[lane] = value;
    group->source[lane] = source;
    group->arrived |= 1u << lane;
    if (group->arrived == expected)
        finish(block, warp, group);
    else
        fiber_wait(fiber, &group->waiting, name, line, mask);
    if (operation == ATTILE_SYNC)
        race_acquire(order);
    return fiber->result;
}

/* Lanes that have ended are not waited for: the rest of a group may now be complete. */
void collective_ended(struct fiber *fiber) {
    struct block *block = block_of(fiber);
    unsigned warp = fiber->thread.index / ATTILE_WARP;
    fiber->state = FIBER_ENDED;
    unsigned lanes = alive(block, warp);
    for (int i = 0; i < GROUPS; i++) {
        struct group *group = &block->warp[warp].group[i];
        if (group->arrived && group->arrived == (group->mask & lanes))
            finish(block, warp, group);
    }
}

void collective_missing(struct block *block, struct fiber *fiber, struct text *text) {
    if (!fiber->mask) {
        text_print(text, ": %u of %u threads have arrived", block->barrier.arrived, block->shown.threads);
        return;
    }
    unsigned warp = fiber->thread.index / ATTILE_WARP;
    const struct group *group = find_group(&block->warp[warp], fiber->mask);
    text_print(text, ": mask 0x%08x, missing lanes 0x%08x", fiber->mask,
               fiber->mask & alive(block, warp) & ~(group ? group->arrived : 0));
}
