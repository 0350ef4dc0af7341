/* order: what orders memory accesses of a block, as ThreadSanitizer is told. Every barrier has a slot, and two objects in
   it, for even and odd phases: so who arrives early in the next phase is not seen by who leaves this one late.

   Memory has two sides on Hopper. What a thread does itself is seen by other threads after a barrier, but by the copy and
   tensor cores only if the thread fenced it before the barrier. So every warp has a courier: an identity that takes part
   in all barriers beside its threads, with objects of its own, and learns of a thread's accesses only at a fence, of the
   units' at waits. A unit that is asked for something has an identity of its own and knows what the asking warps' couriers
   knew then. Couriers exist from the first use of such a unit in a block.

   Nothing here does anything except in race mode. */
#ifndef ATTILE_HOST_ORDER_H
#define ATTILE_HOST_ORDER_H

#include "block.h"

enum {
    ORDER_NAMED_BARRIERS = 16,
    ORDER_TRANSACTION_BARRIERS = 64,
    ORDER_WARPS = ATTILE_THREADS / ATTILE_WARP,
    ORDER_WARPGROUPS = ATTILE_THREADS / ATTILE_WARPGROUP,
    ORDER_PRODUCTS = 64, /* ends of products are told apart by number modulo this */
    ORDER_COPIERS = 16,  /* and copies are done by so many in turn, so that one's end says little of another's */

    ORDER_BARRIER = 0,
    ORDER_GROUPS,
    ORDER_NAMED = ORDER_GROUPS + ORDER_WARPS * GROUPS,
    ORDER_TRANSACTIONS = ORDER_NAMED + ORDER_NAMED_BARRIERS,
    ORDER_FENCES = ORDER_TRANSACTIONS + ORDER_TRANSACTION_BARRIERS, /* a warp each */
    ORDER_STORES = ORDER_FENCES + ORDER_WARPS,                      /* a warp each */
    ORDER_ISSUED = ORDER_STORES + ORDER_WARPS,                      /* a warpgroup each */
    ORDER_DONE = ORDER_ISSUED + ORDER_WARPGROUPS,                   /* ... and ORDER_PRODUCTS of them */
    ORDER_COPIES = ORDER_DONE + ORDER_WARPGROUPS * ORDER_PRODUCTS,  /* a copier each */
    ORDER_CLUSTER = ORDER_COPIES + ORDER_COPIERS,                   /* of the cluster's first block */
    ORDER_END,
    ORDER_SLOTS,
    ORDER_ROOM = 64 * 1024 /* bytes of block->order */
};

/* What the fiber, and its warp's courier, did so far happens before ... */
void order_release(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);
/* The same for what its courier did, or knows, alone. */
void order_release_units(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);
/* ... what they do from now on. `owner` is the block whose slot it is: the fiber's, or one of its cluster. */
void order_acquire(struct fiber *fiber, const struct block *owner, unsigned slot, unsigned phase);

/* A unit of Hopper is used: from now on this block has couriers. */
void order_use_couriers(struct block *block);
/* What the fiber itself did so far is known to its warp's courier. */
void order_fence(struct fiber *fiber);

/* The fiber asks a unit for something: what its courier knows now, order_be_unit makes the unit know. */
void order_ask(struct fiber *fiber, unsigned slot);

/* Go on in the name of a unit; the result is who we were, for order_be. `identity` is made when there is none. */
void *order_be_unit(struct block *block, void **identity, const char *name, unsigned slot);
void order_be(void *identity);

/* A unit is done: for threads and couriers alike. */
void order_done(const struct block *owner, unsigned slot, unsigned phase);

/* A thread of a cluster ends; with the last of its block goes the block's shared memory, which counts as writing it. */
void order_leave(struct fiber *fiber, bool last);

/* An access of who we are now, by code that is not watched; see race_access. */
void order_access(const struct block *block, const void *address, size_t size, bool write, const void *pc);

void order_free(struct block *block);

#endif
