/* block: see block.h. */
#include "block.h"
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_PAGE = 64 * 1024 }; /* a multiple of any page */

static size_t whole_pages(size_t shared) { return (shared + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE; }

struct fiber *block_fiber(const struct block *block, unsigned index) {
    return (struct fiber *)(void *)(block->memory + (size_t)(index + 1) * ATTILE_STACK - ATTILE_THREAD_ROOM);
}

static unsigned char *stack_low(const struct block *block, unsigned index) {
    return block->memory + (size_t)index * ATTILE_STACK;
}

/* A kernel that overruns its stack stops at once. */
static void guard_stacks(struct block *block) {
    for (unsigned i = 0; i < block->threads; i++)
        (void)mprotect(stack_low(block, i), GUARD_PAGE, PROT_NONE);
}

struct block *block_create(unsigned threads, size_t shared) {
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->threads = threads;
    block->shared_room = whole_pages(shared);
    block->ready = calloc(threads, sizeof *block->ready);
    block->warp = calloc((threads + ATTILE_WARP - 1) / ATTILE_WARP, sizeof *block->warp);
    /* Stacks aligned to their own size: map one more, and give the ends back. */
    size_t size = (size_t)threads * ATTILE_STACK + block->shared_room;
    unsigned char *memory =
        mmap(NULL, size + ATTILE_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!block->ready || !block->warp || memory == MAP_FAILED) {
        if (memory != MAP_FAILED)
            munmap(memory, size + ATTILE_STACK);
        block_free(block);
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)memory & (ATTILE_STACK - 1));
    if (before)
        munmap(memory, before);
    if (ATTILE_STACK - before)
        munmap(memory + before + size, ATTILE_STACK - before);
    block->memory = memory + before;
    block->memory_size = size;
    block->shown.shared = block->memory + (size_t)threads * ATTILE_STACK;
    guard_stacks(block);
    return block;
}

static void forget_threads(struct block *block) {
    for (unsigned i = 0; i < block->threads; i++)
        race_destroy(block_fiber(block, i)->context.race);
}

void block_free(struct block *block) {
    if (!block)
        return;
    if (block->memory) {
        forget_threads(block);
        munmap(block->memory, block->memory_size);
    }
    free(block->ready);
    free(block->warp);
    free(block);
}

/* --- scheduling ---------------------------------------------------------------------------------------------------- */

static struct block *block_of(struct fiber *fiber) { return (struct block *)fiber->thread.block; }

static void make_ready(struct block *block, struct fiber *fiber) {
    fiber->state = FIBER_READY;
    unsigned last = block->first + block->ready_count++;
    block->ready[last < block->shown.threads ? last : last - block->shown.threads] = fiber;
}

/* xorshift64*: small, and good enough to shuffle with. */
static unsigned random_below(uint64_t *state, unsigned limit) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (unsigned)((*state * 0x2545f4914f6cdd1d >> 32) * limit >> 32);
}

static struct fiber *take_ready(struct block *block) {
    unsigned threads = block->shown.threads, first = block->first;
    if (block->random) { /* exchange the first with any */
        unsigned other = first + random_below(&block->random, block->ready_count);
        other = other < threads ? other : other - threads;
        struct fiber *fiber = block->ready[other];
        block->ready[other] = block->ready[first];
        block->ready[first] = fiber;
    }
    block->first = first + 1 < threads ? first + 1 : 0;
    block->ready_count--;
    return block->ready[first];
}

void fiber_wait(struct fiber *fiber, struct queue *queue, const char *what, int line, unsigned mask) {
    fiber->state = FIBER_WAITING;
    fiber->what = what;
    fiber->line = line;
    fiber->mask = mask;
    fiber->next = NULL;
    if (queue->last)
        queue->last->next = fiber;
    else
        queue->first = fiber;
    queue->last = fiber;
    context_switch(&fiber->context, &block_of(fiber)->scheduler);
}

void queue_wake(struct block *block, struct queue *queue) {
    for (struct fiber *fiber = queue->first, *next; fiber; fiber = next) {
        next = fiber->next;
        make_ready(block, fiber);
    }
    *queue = (struct queue){0};
}

static _Noreturn void leave(struct fiber *fiber) {
    fiber->state = FIBER_ENDED;
    context_switch(&fiber->context, &block_of(fiber)->scheduler);
    abort(); /* an ended fiber is never switched to */
}

_Noreturn void fiber_refuse(struct fiber *fiber, int line, const void *pc, const char *format, ...) {
    struct block *block = block_of(fiber);
    struct fault fault = {.line = line, .pc = pc, .block = block->shown.index, .thread = fiber->thread.index};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&fault.text, format, arguments);
    va_end(arguments);
    launch_fault(block->launch, &fault);
    leave(fiber);
}

static void run_thread(void *argument) {
    struct fiber *fiber = argument;
    struct block *block = block_of(fiber);
    context_arrived(&fiber->context, &block->scheduler);
    race_acquire(&block->launch->params);
    _Alignas(64) unsigned char params[LAUNCH_PARAMS]; /* its own, as on the hardware, and so within its stack */
    memcpy(params, block->launch->params, block->launch->entry->params_size);
    block->launch->entry->run(params);
    collective_ended(fiber);
    race_release(block->launch);
    block->ended++;
    leave(fiber);
}

/* --- what kernels call --------------------------------------------------------------------------------------------- */

static void refuse(struct attile_thread *thread, int line, const char *sentence) {
    fiber_refuse((struct fiber *)thread, line, NULL, "%s", sentence);
}

/* "4 bytes past the end of a buffer of 64 bytes" */
static void describe_place(const struct block *block, uintptr_t address, const struct buffer *nearest,
                           struct text *text) {
    uintptr_t shared = (uintptr_t)block->shown.shared, stacks = (uintptr_t)block->memory;
    if (address >= shared && address < stacks + block->memory_size) {
        text_print(text, "byte %zu of the block's %llu bytes of shared memory", (size_t)(address - shared),
                   block->shown.shared_size);
        return;
    }
    if (address >= stacks && address < shared) {
        text_print(text, "the local memory of thread %zu", (size_t)(address - stacks) / ATTILE_STACK);
        return;
    }
    enum { NEAR = 1 << 20 };
    uintptr_t low = (uintptr_t)nearest->base, end = low + nearest->size;
    if (nearest->base && address < low && low - address <= NEAR)
        text_print(text, "%zu bytes before a buffer of %zu bytes", (size_t)(low - address), nearest->size);
    else if (nearest->base && address >= low && address < end + NEAR)
        text_print(text, "byte %zu of a buffer of %zu bytes", (size_t)(address - low), nearest->size);
    else
        text_print(text, "address 0x%zx, which is in no buffer", (size_t)address);
}

static void check_access(struct attile_thread *thread, const void *pointer, unsigned long long size, int write,
                         unsigned alignment, const void *pc) {
    struct fiber *fiber = (struct fiber *)thread;
    struct block *block = block_of(fiber);
    uintptr_t address = (uintptr_t)pointer;
    const char *verb = write ? "writes" : "reads";
    struct buffer buffer, nearest;
    bool found = memory_find(block->launch->memory, address, size, &buffer, &nearest);
    if (alignment && address % alignment)
        fiber_refuse(fiber, 0, pc, "misaligned: %s %llu bytes at an address that is not a multiple of %u", verb, size,
                     alignment);
    if (found) {
        unsigned oldest = ATTILE_RANGES - 1;
        memmove(&block->shown.range[1], &block->shown.range[0], oldest * sizeof block->shown.range[0]);
        block->shown.range[0].low = (uintptr_t)buffer.base;
        block->shown.range[0].size = buffer.size;
        block->shown.count[write ? ATTILE_GLOBAL_WRITTEN : ATTILE_GLOBAL_READ] += size;
        return;
    }
    if (launch_owns(block->launch, address)) /* a constant of the kernel's own */
        return;
    struct text place = {0};
    describe_place(block, address, &nearest, &place);
    struct fault fault = {.pc = pc, .block = block->shown.index, .thread = thread->index};
    text_print(&fault.text, "out of bounds: %s %llu bytes at %s", verb, size, text_string(&place));
    text_free(&place);
    launch_fault(block->launch, &fault);
    leave(fiber);
}

static void *copy(void *to, const void *from, unsigned long long size) { return memmove(to, from, size); }
static void *fill(void *to, int byte, unsigned long long size) { return memset(to, byte, size); }

static const struct attile_host host = {
    .barrier = collective_barrier,
    .collective = collective_warp,
    .access = check_access,
    .refuse = refuse,
    .copy = copy,
    .fill = fill,
};

/* --- running ------------------------------------------------------------------------------------------------------- */

/* ThreadSanitizer remembers who touched which address: give it fresh memory and fresh threads, so that it sees what two
   blocks do to the same buffer, but does not take one block's stack for another's. */
static bool start_race(struct block *block) {
    forget_threads(block);
    if (mmap(block->memory, block->memory_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    guard_stacks(block);
    return true;
}

static bool start(struct block *block, struct launch *launch, unsigned index) {
    if (launch->mode == ATT_HOST_RACE && !start_race(block))
        return false;
    block->launch = launch;
    struct attile_block *shown = &block->shown;
    *shown = (struct attile_block){.host = &host,
                                   .index = index,
                                   .grid = launch->grid,
                                   .threads = launch->threads,
                                   .shared = shown->shared,
                                   .shared_size = launch->shared};
    memset(shown->shared, 0xff, launch->shared); /* NaN, so that what was not written is not a plausible number */
    collective_reset(block);
    block->first = block->ready_count = block->ended = 0;
    block->random = launch->seed ? (launch->seed + index) * 0x9e3779b97f4a7c15 | 1 : 0;
    context_here(&block->scheduler);
    for (unsigned i = 0; i < launch->threads; i++) {
        struct fiber *fiber = block_fiber(block, i);
        fiber->thread = (struct attile_thread){.block = shown, .index = i};
        context_make(&fiber->context, stack_low(block, i), ATTILE_STACK - ATTILE_THREAD_ROOM, run_thread, fiber);
        if (race_present() && !fiber->context.race) {
            char name[64];
            snprintf(name, sizeof name, "block %u, thread %u", index, i);
            fiber->context.race = race_create(name);
        }
        make_ready(block, fiber);
    }
    return true;
}

static void count(struct block *block) {
    struct launch *launch = block->launch;
    const unsigned long long *counts = block->shown.count;
    pthread_mutex_lock(&launch->lock);
    launch->counters.global_read += counts[ATTILE_GLOBAL_READ];
    launch->counters.global_written += counts[ATTILE_GLOBAL_WRITTEN];
    launch->counters.shared_read += counts[ATTILE_SHARED_READ];
    launch->counters.shared_written += counts[ATTILE_SHARED_WRITTEN];
    pthread_mutex_unlock(&launch->lock);
}

/* Is this fiber in the same situation as the one before it? */
static bool alike(const struct fiber *a, const struct fiber *b) {
    if (a->state != b->state || a->state == FIBER_ENDED)
        return a->state == b->state;
    return a->what == b->what && a->line == b->line && a->mask == b->mask;
}

/* Nothing can run and not all have ended: say who waits for whom. */
static void report_deadlock(struct block *block) {
    struct fault fault = {.block = block->shown.index};
    unsigned threads = block->shown.threads;
    text_print(&fault.text, "deadlock: no thread can go on");
    for (unsigned i = 0, end; i < threads; i = end) {
        struct fiber *fiber = block_fiber(block, i);
        for (end = i + 1; end < threads && alike(fiber, block_fiber(block, end));)
            end++;
        text_print(&fault.text, end == i + 1 ? "\n  thread %u" : "\n  threads %u to %u", i, end - 1);
        if (fiber->state == FIBER_ENDED) {
            text_print(&fault.text, end == i + 1 ? " has ended" : " have ended");
            continue;
        }
        text_print(&fault.text, end == i + 1 ? " waits in %s, line %d" : " wait in %s, line %d", fiber->what,
                   fiber->line);
        collective_missing(block, fiber, &fault.text);
        if (!fault.line) {
            fault.line = fiber->line;
            fault.thread = i;
        }
    }
    launch_fault(block->launch, &fault);
}

bool block_run(struct block *block, struct launch *launch, unsigned index) {
    if (!start(block, launch, index)) {
        struct fault fault = {.block = index};
        text_print(&fault.text, "no memory for the stacks of a block");
        launch_fault(launch, &fault);
        return false;
    }
    while (block->ready_count && !atomic_load_explicit(&launch->stop, memory_order_relaxed))
        context_switch(&block->scheduler, &take_ready(block)->context);
    count(block);
    if (atomic_load_explicit(&launch->stop, memory_order_relaxed))
        return false;
    if (block->ended == launch->threads)
        return true;
    report_deadlock(block);
    return false;
}
