/* units: chooses when TMA and the tensor cores act, and checks at the end that no request is unfinished. See
   units.h. */
#include "units.h"
#include "race.h"

#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 65536, REGISTERS_MOST = 256, REGISTERS_STEP = 8, RANDOM_STEPS = 4 };

struct units *units_create(void) {
    return calloc(1, sizeof(struct units));
}

void units_free(struct units *units) {
    for (int i = 0; units && i < ORDER_COPIERS; i++)
        for (int set = 0; set < RACE_SETS; set++)
            race_destroy(units->copier[i][set]);
    for (int w = 0; units && w < ORDER_WARPGROUPS; w++) {
        for (int i = 0; i < UNITS_ACCUMULATORS; i++)
            free(units->warpgroup[w].accumulator[i]);
        for (int set = 0; set < RACE_SETS; set++)
            race_destroy(units->warpgroup[w].identity[set]);
    }
    free(units);
}

/* Registers of each thread at entry if a block has an SM to itself. */
static unsigned registers_at_entry(unsigned threads) {
    unsigned count = REGISTERS / ((threads + ATTILE_WARP - 1) / ATTILE_WARP * ATTILE_WARP);
    count = count / REGISTERS_STEP * REGISTERS_STEP;
    return count < REGISTERS_MOST ? count : REGISTERS_MOST;
}

void units_reset(struct block *block) {
    struct units *units = block->units;
    unsigned threads = block->shown->threads;
    uint64_t seed = block->launch->seed;
    units->timing = seed % 3 == 1 ? UNITS_LATE : seed % 3 == 2 ? UNITS_RANDOM : UNITS_EARLY;
    memset(units->named, 0, sizeof units->named);
    units->transactions = units->copies = units->copies_asked = units->registers = 0;
    units->storing = units->registers_waiting = (struct queue){0};
    for (unsigned w = 0; w * ATTILE_WARPGROUP < threads; w++) {
        struct warpgroup *warpgroup = &units->warpgroup[w];
        warpgroup->asked = warpgroup->done = 0;
        warpgroup->waiting = (struct queue){0};
        for (int i = 0; i < UNITS_PRODUCTS; i++)
            warpgroup->product[i].asked = 0;
        for (int i = 0; i < UNITS_ACCUMULATORS; i++)
            if (warpgroup->accumulator[i]) {
                warpgroup->accumulator[i]->parts = 0;
                memset(warpgroup->accumulator[i]->part, 0, sizeof warpgroup->accumulator[i]->part);
            }
    }
    for (unsigned i = 0; i < threads; i++)
        units->thread[i] = (struct units_thread){.registers = registers_at_entry(threads)};
}

/* Returns the unfinished warpgroup after skipping `skip` of them; null = there are not as many with an unfinished
   product. */
static struct warpgroup *next_warpgroup(struct block *block, unsigned skip) {
    for (unsigned w = 0; w * ATTILE_WARPGROUP < block->shown->threads; w++) {
        struct warpgroup *warpgroup = &block->units->warpgroup[w];
        if (warpgroup->done < warpgroup->asked && skip-- == 0)
            return warpgroup;
    }
    return NULL;
}

bool units_due(struct block *block, bool idle) {
    const struct units *units = block->units;
    if (units->timing == UNITS_EARLY || (!units->copies && !next_warpgroup(block, 0)))
        return false;
    return idle || (units->timing == UNITS_RANDOM && block_random(block, RANDOM_STEPS) == 0);
}

/* Copies run in any order, the products of a warpgroup in order. */
void units_step(struct block *block) {
    struct units *units = block->units;
    unsigned products = 0;
    while (next_warpgroup(block, products))
        products++;
    unsigned which = block_random(block, units->copies + products);
    if (which < units->copies)
        copy_run(block, which);
    else
        product_run(block, next_warpgroup(block, which - units->copies));
}

void units_ended(struct fiber *fiber) {
    struct block *block = fiber->block;
    const struct units_thread *thread = &block->units->thread[fiber->index];
    const struct warpgroup *warpgroup = &block->units->warpgroup[fiber->index / ATTILE_WARPGROUP];
    if (thread->stores || thread->grouped)
        fiber_refuse(fiber, 0, NULL,
                     "ended with %u tma_store or tma_add that it has not %s: shared memory is gone before it is read",
                     thread->stores + thread->grouped, thread->stores ? "committed" : "waited for");
    for (int i = 0; i < UNITS_ACCUMULATORS; i++)
        if (warpgroup->accumulator[i] && warpgroup->accumulator[i]->part[fiber->index % ATTILE_WARPGROUP])
            fiber_refuse(fiber, 0, NULL, "ended with products that it has not waited for: wgmma_wait is missing");
}

bool units_finished(struct block *block) {
    const struct units *units = block->units;
    struct fault fault = {.block = block->shown->index};
    for (unsigned i = 0; i < units->transactions && !fault.text.size; i++) {
        const struct transaction *t = &units->transaction[i];
        if (t->bytes)
            text_print(&fault.text, "ended while %d bytes %s the barrier at byte %zu of shared memory, in its phase %u",
                       t->bytes > 0 ? t->bytes : -t->bytes,
                       t->bytes > 0 ? "were still expected by" : "arrived without barrier_expect at",
                       (size_t)((unsigned char *)t->word - block->shared), t->phase);
    }
    for (unsigned id = 0; id < ORDER_NAMED_BARRIERS && !fault.text.size; id++)
        if (units->named[id].arrived)
            text_print(&fault.text, "ended while barrier %u waited: %u of %u threads have arrived", id,
                       units->named[id].arrived, units->named[id].expected);
    if (!fault.text.size)
        return true;
    launch_fault(block->launch, &fault);
    return false;
}
