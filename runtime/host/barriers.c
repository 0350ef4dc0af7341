/* barriers: named barriers, transaction barriers, and the pool of registers. See units.h. */
#include "cluster.h"
#include "units.h"

#include <stdio.h>
#include <string.h>

enum { ARRIVALS_MOST = (1 << 20) - 1, BYTES_MOST = (1 << 20) - 1 };
static const unsigned long long word_of_barrier = 0x6261727269657221; /* content of the 8 bytes after barrier_init */

/* --- named barriers ------------------------------------------------------------------------------------------------ */

static void missing_named(const struct block *block, const struct fiber *fiber, struct text *text) {
    const struct named *named = &block->units->named[fiber->wait.object];
    text_print(text, ": barrier %u, %u of %u threads have arrived", fiber->wait.object, named->arrived,
               named->expected);
}

void units_named(struct attile_block *shown, unsigned index, int id, int threads, int wait, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    const char *name = wait ? "named_barrier_sync()" : "named_barrier_arrive()";
    if (id < 1 || id >= ORDER_NAMED_BARRIERS)
        fiber_refuse(fiber, line, NULL, "%s of barrier %d, expected 1 to %d", name, id, ORDER_NAMED_BARRIERS - 1);
    struct named *named = &block->units->named[id];
    if (threads < ATTILE_WARP || threads % ATTILE_WARP || (unsigned)threads > shown->threads)
        fiber_refuse(fiber, line, NULL, "%s for %d threads, expected a multiple of 32, at most the block's %u", name,
                     threads, shown->threads);
    if (named->arrived && named->expected != (unsigned)threads)
        fiber_refuse(fiber, line, NULL, "%s of barrier %d for %d threads, but for %u at line %d", name, id, threads,
                     named->expected, named->line);
    unsigned slot = ORDER_NAMED + (unsigned)id, phase = named->phase;
    order_release(fiber, fiber->block, slot, phase);
    named->expected = (unsigned)threads;
    named->line = named->arrived ? named->line : line;
    if (++named->arrived == named->expected) {
        named->arrived = 0;
        named->phase++;
        queue_wake(&named->waiting);
    } else if (wait) {
        fiber_wait(fiber, &named->waiting, (struct wait){name, line, (unsigned)id, missing_named});
    }
    if (wait)
        order_acquire(fiber, fiber->block, slot, phase);
}

/* --- transaction barriers ------------------------------------------------------------------------------------------ */

static size_t place_of(const struct block *block, const void *word) {
    return (size_t)((const unsigned char *)word - block->shared);
}

unsigned transaction_slot(const struct transaction *transaction) {
    return ORDER_TRANSACTIONS + (unsigned)(transaction - transaction->block->units->transaction);
}

static struct transaction *look_up(struct block *block, const void *word) {
    struct units *units = block->units;
    for (unsigned i = 0; i < units->transactions; i++)
        if (units->transaction[i].word == word)
            return &units->transaction[i];
    return NULL;
}

/* " of block 3", if there are several blocks */
static const char *owner_name(const struct block *owner, char name[32]) {
    snprintf(name, 32, owner->shown->cluster > 1 ? " of block %u" : "%.0u", owner->shown->index);
    return name;
}

struct transaction *transaction_find(struct fiber *fiber, struct block *owner, const void *word, int line) {
    size_t place = place_of(fiber->block, word);
    struct transaction *transaction = look_up(owner, owner->shared + place);
    char name[32];
    if (owner != fiber->block && block_ended(owner))
        fiber_refuse(fiber, line, NULL, "block %u of the cluster has ended, and its shared memory is gone",
                     owner->shown->index);
    if (!transaction)
        fiber_refuse(fiber, line, NULL, "a barrier at byte %zu of shared memory%s is used before barrier_init", place,
                     owner_name(owner, name));
    if (*transaction->word != word_of_barrier)
        fiber_refuse(fiber, line, NULL, "the barrier at byte %zu of shared memory%s was overwritten", place,
                     owner_name(owner, name));
    return transaction;
}

static void make(struct fiber *fiber, void *word, int arrivals, int line) {
    struct block *block = fiber->block;
    struct units *units = block->units;
    size_t place = place_of(block, word);
    if (place % 8 || place >= block->shown->shared_size || block->shown->shared_size - place < 8)
        fiber_refuse(fiber, line, NULL,
                     "barrier_init at byte %zu of %llu bytes of shared memory, expected 8 aligned bytes", place,
                     block->shown->shared_size);
    if (arrivals < 1 || arrivals > ARRIVALS_MOST)
        fiber_refuse(fiber, line, NULL, "barrier_init for %d arrivals, expected 1 to %d", arrivals, ARRIVALS_MOST);
    struct transaction *transaction = look_up(block, word);
    if (!transaction && units->transactions == ORDER_TRANSACTION_BARRIERS)
        fiber_refuse(fiber, line, NULL, "more than %d transaction barriers in a block", ORDER_TRANSACTION_BARRIERS);
    if (!transaction)
        transaction = &units->transaction[units->transactions++];
    *transaction = (struct transaction){
        .block = block, .word = word, .arrivals = (unsigned)arrivals, .pending = (unsigned)arrivals};
    *transaction->word = word_of_barrier;
}

static void end_phase_if_complete(struct transaction *transaction) {
    if (transaction->pending || transaction->bytes)
        return;
    transaction->phase++;
    transaction->pending = transaction->arrivals;
    queue_wake(&transaction->waiting);
}

void transaction_bytes(struct transaction *transaction, int bytes) {
    transaction->bytes -= bytes;
    end_phase_if_complete(transaction);
}

static void arrive(struct fiber *fiber, struct transaction *transaction, int bytes, int line) {
    struct block *owner = transaction->block;
    char name[32];
    if (bytes < 0 || transaction->bytes + bytes > BYTES_MOST)
        fiber_refuse(fiber, line, NULL, "barrier_expect of %d bytes, beside %d: at most %d can be outstanding", bytes,
                     transaction->bytes, BYTES_MOST);
    if (!transaction->pending)
        fiber_refuse(fiber, line, NULL,
                     "arrival at the barrier at byte %zu of shared memory%s: all %u of phase %u are there already",
                     place_of(owner, transaction->word), owner_name(owner, name), transaction->arrivals,
                     transaction->phase);
    if (owner == fiber->block)
        order_release(fiber, owner, transaction_slot(transaction), transaction->phase);
    else /* not a release at cluster scope, which would cost too much */
        order_release_units(fiber, owner, transaction_slot(transaction), transaction->phase);
    transaction->bytes += bytes;
    transaction->pending--;
    end_phase_if_complete(transaction);
}

static void missing_arrivals(const struct block *block, const struct fiber *fiber, struct text *text) {
    const struct transaction *transaction = &block->units->transaction[fiber->wait.object];
    text_print(text, ": barrier at byte %zu of shared memory, phase %u, misses %u of %u arrivals and %d bytes",
               place_of(block, transaction->word), transaction->phase, transaction->pending, transaction->arrivals,
               transaction->bytes);
}

static void await(struct fiber *fiber, struct transaction *transaction, int parity, int line) {
    struct block *block = fiber->block;
    if (parity != 0 && parity != 1)
        fiber_refuse(fiber, line, NULL, "barrier_wait for parity %d, expected 0 or 1", parity);
    unsigned which = (unsigned)(transaction - block->units->transaction);
    while (transaction->phase % 2 ==
           (unsigned)parity) /* a thread that misses its phase waits for the next one, as on the hardware */
        fiber_wait(fiber, &transaction->waiting, (struct wait){"barrier_wait()", line, which, missing_arrivals});
    order_acquire(fiber, block, transaction_slot(transaction), (unsigned)parity);
}

/* Returns the block that owns the barrier at which the thread arrives. */
static struct block *find_owner(struct fiber *fiber, int operation, int rank, int line) {
    const struct cluster *cluster = fiber->block->cluster;
    if (operation != ATTILE_ARRIVE_PEER)
        return fiber->block;
    if (rank < 0 || (unsigned)rank >= cluster->blocks)
        fiber_refuse(fiber, line, NULL, "barrier_arrive_at rank %d of a cluster of %u blocks", rank, cluster->blocks);
    return cluster->block[rank];
}

void units_transaction(struct attile_block *shown, unsigned index, int operation, void *word, int value, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    const void *pc = __builtin_return_address(0);
    order_use_couriers(fiber->block);
    if (operation == ATTILE_INIT_FENCE) {
        order_fence(fiber);
        return;
    }
    if (operation == ATTILE_INIT)
        make(fiber, word, value, line);
    struct transaction *transaction = transaction_find(fiber, find_owner(fiber, operation, value, line), word, line);
    order_access(fiber->block, transaction->word, sizeof *transaction->word, operation == ATTILE_INIT, pc);
    if (operation == ATTILE_WAIT)
        await(fiber, transaction, value, line);
    else if (operation != ATTILE_INIT)
        arrive(fiber, transaction, operation == ATTILE_EXPECT ? value : 0, line);
}

/* --- registers ----------------------------------------------------------------------------------------------------- */

static void missing_registers(const struct block *block, const struct fiber *fiber, struct text *text) {
    unsigned own = block->units->thread[fiber->index].registers;
    text_print(text, ": %u wanted by a thread that has %u, and %u are free", fiber->wait.object, own,
               block->units->registers);
}

void units_registers(struct attile_block *shown, unsigned index, int count, int acquire, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct units *units = fiber->block->units;
    struct units_thread *thread = &units->thread[index];
    const char *name = acquire ? "registers_acquire()" : "registers_release()";
    unsigned wanted = (unsigned)count;
    if (count < 24 || count > 256 || count % 8)
        fiber_refuse(fiber, line, NULL, "%s of %d, expected a multiple of 8 from 24 to 256", name, count);
    if (acquire ? wanted < thread->registers : wanted > thread->registers)
        fiber_refuse(fiber, line, NULL, "%s of %d, but the thread has %u", name, count, thread->registers);
    if (!acquire) {
        units->registers += thread->registers - wanted;
        queue_wake(&units->registers_waiting);
    }
    while (acquire && units->registers < wanted - thread->registers)
        fiber_wait(fiber, &units->registers_waiting, (struct wait){name, line, wanted, missing_registers});
    if (acquire)
        units->registers -= wanted - thread->registers;
    thread->registers = wanted;
}
