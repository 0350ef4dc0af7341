/* order: tells ThreadSanitizer what orders the memory accesses of a block. Every barrier has a slot with two objects,
   for even and odd phases, so that a thread that leaves one phase late does not see a thread that arrives early in the
   next.

   Hopper has two memory proxies. Other threads see a thread's writes after a barrier, but TMA and wgmma (the async
   proxy) see them only if the thread executed fence.proxy.async before the barrier. ThreadSanitizer knows only one kind
   of access. So each warp has a courier: an identity that stands for the async proxy. It takes part in every barrier
   along with the warp's threads, with objects of its own; it learns of a thread's accesses at a fence, and of a unit's
   accesses at a wait. A unit has an identity of its own: it knows what the courier of the requesting warp knew at the
   request. A block makes couriers when it first uses such a unit.

   These functions do nothing except in race mode. */
#ifndef ATTILE_HOST_ORDER_H
#define ATTILE_HOST_ORDER_H

#include "block.h"

enum {
    ORDER_NAMED_BARRIERS = 16,
    ORDER_TRANSACTION_BARRIERS = 64,
    ORDER_WARPS = ATTILE_THREADS / ATTILE_WARP,
    ORDER_WARPGROUPS = ATTILE_THREADS / ATTILE_WARPGROUP,
    ORDER_PRODUCTS = 64, /* products whose ends have objects of their own, by number modulo this */
    ORDER_COPIERS = 16,  /* identities that copy in turn, so that the end of one copy does not order the others */

    ORDER_BARRIER = 0,
    ORDER_GROUPS,
    ORDER_NAMED = ORDER_GROUPS + ORDER_WARPS * GROUPS,
    ORDER_TRANSACTIONS = ORDER_NAMED + ORDER_NAMED_BARRIERS,
    ORDER_FENCES = ORDER_TRANSACTIONS + ORDER_TRANSACTION_BARRIERS, /* one per warp */
    ORDER_STORES = ORDER_FENCES + ORDER_WARPS,                      /* one per warp */
    ORDER_ISSUED = ORDER_STORES + ORDER_WARPS,                      /* one per warpgroup */
    ORDER_DONE = ORDER_ISSUED + ORDER_WARPGROUPS,                   /* per warpgroup, ORDER_PRODUCTS of them */
    ORDER_COPIES = ORDER_DONE + ORDER_WARPGROUPS * ORDER_PRODUCTS,  /* one per copier */
    ORDER_CLUSTER = ORDER_COPIES + ORDER_COPIERS,                   /* of the cluster's first block */
    ORDER_END,
    ORDER_SLOTS,
    ORDER_ROOM = 64 * 1024 /* bytes of block->order */
};

/* All accesses of the fiber and its warp's courier up to here happen before those that follow an order_acquire of the
   slot. `owner` is the block that owns the slot: the fiber's own or another of its cluster. */
void order_release(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);
/* The same for the accesses of only the courier: what units have finished. */
void order_release_units(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);
/* The accesses that were released in this slot and phase happen before all later accesses of the fiber and its
   courier. */
void order_acquire(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);

/* Called before the first use of TMA or wgmma in a block: from then on it has couriers. */
void order_use_couriers(struct block *block);
/* fence.proxy.async: the courier of the fiber's warp learns of the fiber's accesses. */
void order_fence(struct fiber *fiber);

/* The fiber requests work from a unit. order_be_unit passes on what the courier knows now. */
void order_ask(struct fiber *fiber, unsigned slot);

/* Continues as a unit, whose identity is created on first use. Returns the former identity, for order_be. */
void *order_be_unit(struct block *block, void **identity, const char *name, unsigned slot);
void order_be(void *identity);

/* The unit has finished: its accesses are released to threads and couriers. */
void order_done(const struct block *owner, unsigned slot, unsigned phase);

/* A thread of a cluster ends. When the last one of a block ends, the block's shared memory disappears, which counts as
   a write to it. */
void order_leave(struct fiber *fiber, bool last);

/* An access by the current identity in code that is not instrumented; see race_access. */
void order_access(const struct block *block, const void *address, size_t size, bool write, const void *pc);

void order_free(struct block *block);

#endif
