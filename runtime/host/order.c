/* order: see order.h.   block->order = objects of threads, then of couriers; 8 bytes each. */
#include "order.h"
#include "race.h"

#include <stdio.h>

_Static_assert(2 * 2 * 8 * ORDER_SLOTS <= ORDER_ROOM, "both sides fit");

enum side { THREADS, COURIERS };

static void *object(const struct block *block, enum side side, unsigned slot, unsigned phase) {
    return block->order ? block->order + 8 * (2 * (side * ORDER_SLOTS + slot) + phase % 2) : NULL;
}

static void *be(void *identity) {
    void *before = race_current();
    race_switch(identity);
    return before;
}

void order_be(void *identity) { race_switch(identity); }

/* The scheduler's identity creates the courier; if the calling thread created it, the courier would be ordered after
   everything that this thread did. */
static void *courier_of(struct block *block, unsigned warp) {
    struct courier *courier = &block->courier[warp];
    void **identity = &courier->identity[block->runs % RACE_SETS];
    if (courier->run == block->runs)
        return *identity;
    courier->run = block->runs;
    void *self = be(block->scheduler.race);
    if (!*identity)
        *identity = race_create();
    static _Thread_local char name[64]; /* the stack is a thread's own, and the thread writes there too */
    snprintf(name, sizeof name, "block %u, courier of warp %u", block->shown->index, warp);
    race_name(*identity, name);
    race_switch(*identity);
    race_acquire(block);
    race_switch(self);
    return *identity;
}

static void *be_courier(struct block *block, unsigned warp) { return be(courier_of(block, warp)); }

/* The courier releases what it knows; `to_threads`: to threads as well as couriers. */
static void release_courier(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase,
                            bool to_threads) {
    if (!fiber->block->couriers)
        return;
    void *self = be_courier(fiber->block, fiber->index / ATTILE_WARP);
    race_release(object(owner, COURIERS, slot, phase));
    if (to_threads)
        race_release(object(owner, THREADS, slot, phase));
    race_switch(self);
}

void order_release(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase) {
    race_release(object(owner, THREADS, slot, phase));
    release_courier(fiber, owner, slot, phase, false);
}

void order_release_units(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase) {
    release_courier(fiber, owner, slot, phase, true);
}

void order_acquire(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase) {
    race_acquire(object(owner, THREADS, slot, phase));
    if (!fiber->block->couriers)
        return;
    void *self = be_courier(fiber->block, fiber->index / ATTILE_WARP);
    race_acquire(object(owner, COURIERS, slot, phase));
    race_switch(self);
}

void order_use_couriers(struct block *block) { block->couriers = block->order != NULL; }

void order_fence(struct fiber *fiber) {
    struct block *block = fiber->block;
    unsigned warp = fiber->index / ATTILE_WARP;
    if (!block->couriers)
        return;
    race_release(object(block, COURIERS, ORDER_FENCES + warp, 0));
    void *self = be_courier(block, warp);
    race_acquire(object(block, COURIERS, ORDER_FENCES + warp, 0));
    race_switch(self);
}

void order_ask(struct fiber *fiber, unsigned slot) {
    struct block *block = fiber->block;
    if (!block->couriers)
        return;
    void *self = be_courier(block, fiber->index / ATTILE_WARP);
    race_release(object(block, COURIERS, slot, 0));
    race_switch(self);
}

void *order_be_unit(struct block *block, void **identity, const char *name, unsigned slot) {
    if (!block->couriers)
        return NULL;
    void *self = be(block->scheduler.race);
    if (!*identity)
        *identity = race_create();
    race_name(*identity, name);
    race_switch(*identity);
    race_acquire(object(block, COURIERS, slot, 0));
    return self;
}

void order_done(const struct block *owner, unsigned slot, unsigned phase) {
    race_release(object(owner, THREADS, slot, phase));
    race_release(object(owner, COURIERS, slot, phase));
}

void order_leave(struct fiber *fiber, bool last) {
    struct block *block = fiber->block;
    if (!block->order)
        return;
    race_release(object(block, THREADS, ORDER_END, 0));
    if (!last)
        return;
    void *self = be(block->scheduler.race), **identity = &block->end[block->runs % RACE_SETS];
    if (!*identity)
        *identity = race_create();
    char name[64];
    snprintf(name, sizeof name, "the end of block %u", block->shown->index);
    race_name(*identity, name);
    race_switch(*identity);
    race_acquire(object(block, THREADS, ORDER_END, 0));
    race_access(block->shared, block->shown->shared_size, true, NULL);
    race_switch(self);
}

void order_access(const struct block *block, const void *address, size_t size, bool write, const void *pc) {
    if (block->order)
        race_access(address, size, write, pc);
}

void order_free(struct block *block) {
    for (unsigned set = 0; set < RACE_SETS; set++)
        race_destroy(block->end[set]);
    for (unsigned warp = 0; warp < ORDER_WARPS; warp++)
        for (unsigned set = 0; set < RACE_SETS; set++)
            race_destroy(block->courier[warp].identity[set]);
}
