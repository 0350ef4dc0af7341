/* collective: barriers of a block, and shuffles, votes and syncs of a warp. The last thread to arrive does the work and
   wakes the others. ThreadSanitizer is told only of the ordering that the hardware guarantees: that of __syncthreads
   and __syncwarp. */
#include "block.h"
#include "order.h"

static unsigned group_slot(const struct block *block, const struct warp *warp, const struct group *group) {
    return ORDER_GROUPS + (unsigned)(warp - block->warp) * GROUPS + (unsigned)(group - warp->group);
}

void collective_reset(struct block *block) {
    unsigned threads = block->shown->threads, warps = (threads + ATTILE_WARP - 1) / ATTILE_WARP;
    block->barrier = (struct barrier){0};
    for (unsigned i = 0; i < warps; i++) {
        unsigned lanes = threads - i * ATTILE_WARP;
        block->warp[i].alive = lanes < ATTILE_WARP ? (1u << lanes) - 1 : ~0u;
        for (int g = 0; g < GROUPS; g++) { /* a fault leaves threads waiting; phases continue */
            block->warp[i].group[g].arrived = 0;
            block->warp[i].group[g].waiting = (struct queue){0};
        }
    }
}

static void missing_threads(const struct block *block, const struct fiber *fiber, struct text *text) {
    (void)fiber;
    text_print(text, ": %u of %u threads have arrived", block->barrier.arrived, block->shown->threads);
}

void collective_barrier(struct attile_block *shown, unsigned index, int line) {
    struct block *block = shown->device;
    struct fiber *fiber = &block->fiber[index];
    struct barrier *barrier = &block->barrier;
    unsigned phase = barrier->phase;
    if (barrier->arrived && barrier->line != line)
        fiber_refuse(fiber, line, NULL,
                     "divergent __syncthreads(): this thread is at line %d while %u others wait at line %d", line,
                     barrier->arrived, barrier->line);
    order_release(fiber, fiber->block, ORDER_BARRIER, phase);
    barrier->line = line;
    if (++barrier->arrived < block->shown->threads)
        fiber_wait(fiber, &barrier->waiting, (struct wait){"__syncthreads()", line, 0, missing_threads});
    else {
        barrier->arrived = 0;
        barrier->phase++;
        queue_wake(&barrier->waiting);
    }
    order_acquire(fiber, fiber->block, ORDER_BARRIER, phase);
}

static const char *const collective_name[] = {[ATTILE_SYNC] = "__syncwarp()",
                                              [ATTILE_PICK] = "a warp shuffle",
                                              [ATTILE_BALLOT] = "a warp vote",
                                              [ATTILE_ROWS] = "load_matrices()",
                                              [ATTILE_MULTIPLY] = "mma()"};

static struct group *find_group(struct warp *warp, unsigned mask) {
    struct group *unused = NULL;
    for (int i = 0; i < GROUPS; i++) {
        struct group *group = &warp->group[i];
        if (group->arrived && group->mask == mask)
            return group;
        if (!group->arrived && (!unused || group->mask == mask)) /* prefer the same mask: its phase continues */
            unused = group;
    }
    return unused;
}

/* Called when all have arrived: gives each lane its result. `lanes` are the fibers of the warp. */
static void finish(struct fiber *lanes, struct group *group) {
    uint64_t ballot = 0;
    if (group->operation == ATTILE_ROWS)
        warp_find_rows(lanes, group->value, group->line);
    else if (group->operation == ATTILE_MULTIPLY)
        warp_multiply(group->value);
    for (unsigned lane = 0; lane < ATTILE_WARP; lane++)
        if (group->arrived >> lane & 1 && group->value[lane])
            ballot |= 1u << lane;
    for (unsigned lane = 0; lane < ATTILE_WARP; lane++)
        if (group->arrived >> lane & 1) {
            lanes[lane].result = group->operation == ATTILE_PICK ? group->value[group->source[lane]] : ballot;
        }
    group->arrived = 0;
    group->phase++;
    queue_wake(&group->waiting);
}

static void missing_lanes(const struct block *block, const struct fiber *fiber, struct text *text) {
    const struct warp *warp = &block->warp[fiber->index / ATTILE_WARP];
    unsigned mask = fiber->wait.object, arrived = 0;
    for (int i = 0; i < GROUPS; i++)
        if (warp->group[i].arrived && warp->group[i].mask == mask)
            arrived = warp->group[i].arrived;
    text_print(text, ": mask 0x%08x, missing lanes 0x%08x", mask, mask & warp->alive & ~arrived);
}

unsigned long long collective_warp(struct attile_block *shown, unsigned index, int operation, unsigned mask,
                                   unsigned long long value, int source, int line) {
    struct block *block = shown->device;
    struct fiber *fiber = &block->fiber[index];
    struct warp *warp = &block->warp[index / ATTILE_WARP];
    unsigned lane = index % ATTILE_WARP;
    const char *name = collective_name[operation];
    if (!(mask >> lane & 1))
        fiber_refuse(fiber, line, NULL, "%s with mask 0x%08x, which leaves out the calling lane %u", name, mask, lane);
    unsigned expected = mask & warp->alive;
    if (operation == ATTILE_PICK && !(expected >> source & 1))
        fiber_refuse(fiber, line, NULL, "%s from lane %d, which %s: the value is undefined", name, source,
                     mask >> source & 1 ? "has ended or does not exist" : "is not in the mask");
    if (operation >= ATTILE_ROWS && expected != ~0u)
        fiber_refuse(fiber, line, NULL, "%s by a warp of which lanes 0x%08x have ended or do not exist", name,
                     ~expected);
    struct group *group = find_group(warp, mask);
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
    unsigned slot = group_slot(block, warp, group), phase = group->phase;
    if (operation == ATTILE_SYNC)
        order_release(fiber, fiber->block, slot, phase);
    group->value[lane] = value;
    group->source[lane] = source;
    group->arrived |= 1u << lane;
    if (group->arrived == expected)
        finish(fiber - lane, group);
    else
        fiber_wait(fiber, &group->waiting, (struct wait){name, line, mask, missing_lanes});
    if (operation == ATTILE_SYNC)
        order_acquire(fiber, fiber->block, slot, phase);
    return fiber->result;
}

/* No thread waits for lanes that have ended, so a group may be complete now. */
void collective_ended(struct fiber *fiber) {
    unsigned lane = fiber->index % ATTILE_WARP;
    struct warp *warp = &fiber->block->warp[fiber->index / ATTILE_WARP];
    warp->alive &= ~(1u << lane);
    for (int i = 0; i < GROUPS; i++) {
        struct group *group = &warp->group[i];
        if (group->arrived && group->arrived == (group->mask & warp->alive))
            finish(fiber - lane, group);
    }
}
