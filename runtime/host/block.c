/* block: see block.h. */
#include "block.h"
#include "cluster.h"
#include "order.h"
#include "race.h"
#include "units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGES = 64 * 1024,       /* a multiple of any page */
    SHARED_ROOM = 4 * PAGES, /* LAUNCH_SHARED and room to recognise accesses past it */
    HEAD = PAGES,            /* the region's first bytes, taken from the first stack */
    COLORS = 64,             /* stacks start at different cache lines, otherwise all use the same sets */
    COLOR = 320
};
_Static_assert((int)LAUNCH_SHARED <= (int)SHARED_ROOM && sizeof(struct attile_block) <= HEAD, "they fit");

static unsigned char *stack_low(const struct block *block, unsigned index) {
    return block->region + (size_t)index * ATTILE_STACK + (index ? 0 : HEAD);
}

static void *map(void *at, size_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void *memory = mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Returns address space aligned to its own size: maps twice as much and unmaps the ends. Untouched pages cost
   nothing. */
static unsigned char *map_region(void) {
    unsigned char *memory = map(NULL, 2 * (size_t)ATTILE_REGION);
    if (!memory)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)memory & (ATTILE_REGION - 1));
    if (before)
        munmap(memory, before);
    munmap(memory + before + ATTILE_REGION, ATTILE_REGION - before);
    return memory + before;
}

struct block *block_create(void) {
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->region = map_region();
    block->shared = map(NULL, SHARED_ROOM);
    block->units = units_create();
    if (!block->region || !block->shared || !block->units) {
        block_free(block);
        return NULL;
    }
    block->shown = (struct attile_block *)(void *)block->region;
    return block;
}

static void forget_order(struct block *block) {
    if (block->order)
        munmap(block->order, ORDER_ROOM);
    block->order = NULL;
}

void block_free(struct block *block) {
    if (!block)
        return;
    for (unsigned i = 0; i < ATTILE_THREADS; i++)
        free(block->fiber[i].copies.item);
    for (unsigned i = 0; i < ATTILE_THREADS; i++)
        for (unsigned set = 0; set < RACE_SETS; set++)
            race_destroy(block->fiber[i].identity[set]);
    order_free(block);
    units_free(block->units);
    forget_order(block);
    if (block->region)
        munmap(block->region, ATTILE_REGION);
    if (block->shared)
        munmap(block->shared, SHARED_ROOM);
    free(block);
}

/* Guard pages: a kernel that overruns its stack faults at once. */
static void guard_stacks(struct block *block, unsigned threads) {
    for (; block->guarded < threads; block->guarded++)
        (void)mprotect(stack_low(block, block->guarded), PAGES, PROT_NONE);
}

/* --- scheduling ---------------------------------------------------------------------------------------------------- */

static void make_ready(struct block *block, struct fiber *fiber) {
    fiber->state = FIBER_READY;
    if (fiber->index / ATTILE_WARP == block->held_warp) {
        block->back[block->back_count++] = fiber;
        return;
    }
    unsigned last = block->first + block->ready_count++;
    block->ready[last < block->shown->threads ? last : last - block->shown->threads] = fiber;
}

/* xorshift64*: small and good enough for a shuffle. */
unsigned block_random(struct block *block, unsigned limit) {
    uint64_t *state = &block->random;
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (unsigned)((*state * 0x2545f4914f6cdd1d >> 32) * limit >> 32);
}

/* With half of the seeds (three of every six), holds back one warp until nothing else can run, units included, then
   another one. A kernel that relies on a warp not being that late fails. */
static void hold_a_warp(struct block *block) {
    unsigned warps = (block->shown->threads + ATTILE_WARP - 1) / ATTILE_WARP;
    block->held_warp = block->launch->seed / 3 % 2 ? block_random(block, warps) : BLOCK_NO_WARP;
}

bool block_let_go(struct block *block) {
    unsigned count = block->back_count;
    block->held_warp = BLOCK_NO_WARP;
    block->back_count = 0;
    for (unsigned i = 0; i < count; i++)
        make_ready(block, block->back[i]);
    hold_a_warp(block);
    return count > 0;
}

static struct fiber *take_ready(struct block *block) {
    unsigned threads = block->shown->threads, first = block->first;
    if (block->random) { /* exchange the first with a random one */
        unsigned other = first + block_random(block, block->ready_count);
        other = other < threads ? other : other - threads;
        struct fiber *fiber = block->ready[other];
        block->ready[other] = block->ready[first];
        block->ready[first] = fiber;
    }
    block->first = first + 1 < threads ? first + 1 : 0;
    block->ready_count--;
    return block->ready[first];
}

void fiber_wait(struct fiber *fiber, struct queue *queue, struct wait wait) {
    fiber->state = FIBER_WAITING;
    fiber->wait = wait;
    fiber->next = NULL;
    if (queue->last)
        queue->last->next = fiber;
    else
        queue->first = fiber;
    queue->last = fiber;
    context_switch(&fiber->context, &fiber->block->scheduler);
}

void queue_wake(struct queue *queue) {
    for (struct fiber *fiber = queue->first, *next; fiber; fiber = next) {
        next = fiber->next;
        make_ready(fiber->block, fiber);
    }
    *queue = (struct queue){0};
}

static _Noreturn void leave(struct fiber *fiber) {
    fiber->state = FIBER_ENDED;
    context_switch(&fiber->context, &fiber->block->scheduler);
    abort(); /* an ended fiber is never switched to */
}

_Noreturn void fiber_refuse(struct fiber *fiber, int line, const void *pc, const char *format, ...) {
    struct block *block = fiber->block;
    struct fault fault = {.line = line, .pc = pc, .block = block->shown->index, .thread = fiber->index};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&fault.text, format, arguments);
    va_end(arguments);
    launch_fault(block->launch, &fault);
    leave(fiber);
}

/* Copies parameters such that reuse of stacks from launch to launch is no race: the sanitizer would see memcpy, but not
   this loop. */
static void copy_unseen(unsigned char *to, const unsigned char *from, size_t size) {
    volatile unsigned char *unseen = to;
    for (size_t i = 0; i < size; i++)
        unseen[i] = from[i];
}

static void run_thread(void *argument) {
    struct fiber *fiber = argument;
    struct block *block = fiber->block;
    context_arrived(&fiber->context, &block->scheduler);
    race_acquire(block);
    _Alignas(64) unsigned char params[LAUNCH_PARAMS]; /* each thread has its own copy, as on the hardware */
    copy_unseen(params, block->launch->params, block->launch->entry->params_size);
    block->launch->entry->run(params);
    if (fiber->copies.count > fiber->copies.first)
        fiber_refuse(fiber, 0, NULL, "ended with %u asynchronous copies that it has not waited for",
                     fiber->copies.count - fiber->copies.first);
    if (fiber->waits)
        fiber_refuse(fiber, 0, NULL, "ended without grid_dependency_wait(), as the launch is a dependent one");
    units_ended(fiber);
    collective_ended(fiber);
    race_release(block->launch);
    block->ended++;
    cluster_ended(fiber);
    leave(fiber);
}

/* --- what kernels call --------------------------------------------------------------------------------------------- */

static void refuse(struct attile_block *shown, unsigned index, int line, const char *sentence) {
    fiber_refuse(fiber_of(shown, index), line, NULL, "%s", sentence);
}

/* "4 bytes past the end of a buffer of 64 bytes" */
static void describe_place(const struct block *block, uintptr_t address, const struct buffer *nearest,
                           struct text *text) {
    uintptr_t shared = (uintptr_t)block->shared, stacks = (uintptr_t)block->region;
    if (address - shared < SHARED_ROOM) {
        text_print(text, "byte %zu of the block's %llu bytes of shared memory", (size_t)(address - shared),
                   block->shown->shared_size);
        return;
    }
    for (unsigned rank = 0; rank < block->cluster->blocks; rank++) {
        uintptr_t offset = address - (uintptr_t)block->cluster->block[rank]->shared;
        if (offset >= SHARED_ROOM)
            continue;
        text_print(text, "byte %zu of the shared memory of block %u", (size_t)offset,
                   block->cluster->block[rank]->shown->index);
        return;
    }
    if (address - stacks < ATTILE_REGION) {
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

/* Accesses to recently used buffers are not checked again: of a block's threads, the first is sure to be caught. */
void fiber_check_dependency(struct fiber *fiber, int line, const void *pc) {
    if (fiber->depends)
        fiber_refuse(fiber, line, pc,
                     "accesses global memory before grid_dependency_wait(), and the launch ahead may still run");
}

static void end_dependency(struct attile_block *shown, unsigned index, int ended) {
    struct fiber *fiber = fiber_of(shown, index);
    fiber->depends = false;
    if (ended)
        fiber->waits = false;
}

static void order_blocks(void *object, int acquire) { (acquire ? race_acquire : race_release)(object); }

static void check_access(struct attile_block *shown, unsigned index, const void *pointer, unsigned long long size,
                         int write, unsigned alignment, const void *pc) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    uintptr_t address = (uintptr_t)pointer;
    const char *verb = write ? "writes" : "reads";
    struct buffer buffer, nearest;
    bool found = memory_find(block->launch->memory, address, size, &buffer, &nearest);
    if (alignment && address % alignment)
        fiber_refuse(fiber, 0, pc, "misaligned: %s %llu bytes at an address that is not a multiple of %u", verb, size,
                     alignment);
    if (found) {
        fiber_check_dependency(fiber, 0, pc);
        unsigned oldest = ATTILE_RANGES - 1;
        memmove(&block->shown->range[1], &block->shown->range[0], oldest * sizeof block->shown->range[0]);
        block->shown->range[0].low = (uintptr_t)buffer.base;
        block->shown->range[0].size = buffer.size;
        block->shown->count[write ? ATTILE_GLOBAL_WRITTEN : ATTILE_GLOBAL_READ] += size;
        return;
    }
    if (launch_owns(block->launch, address)) /* a constant of the kernel itself */
        return;
    struct text place = {0};
    describe_place(block, address, &nearest, &place);
    struct fault fault = {.pc = pc, .block = block->shown->index, .thread = index};
    text_print(&fault.text, "out of bounds: %s %llu bytes at %s", verb, size, text_string(&place));
    text_free(&place);
    launch_fault(block->launch, &fault);
    leave(fiber);
}

/* A copy completes in the wait that needs it, which is the latest possible time, or at once, or at random. It stays in
   the list until that wait; size 0 marks a completed copy. */
static bool lands_early(struct block *block) {
    enum copies_timing timing = copies_timing(block->launch->seed);
    return timing == COPIES_EARLY || (timing == COPIES_RANDOM && block_random(block, 2) == 0);
}

static int start_copy(struct attile_block *shown, unsigned index, struct attile_copy copy) {
    struct fiber *fiber = fiber_of(shown, index);
    bool landed = lands_early(fiber->block);
    copy.group = fiber->copies.groups;
    copy.size = landed ? 0 : copy.size;
    if (fiber->copies.count == fiber->copies.room) {
        unsigned room = fiber->copies.room ? 2 * fiber->copies.room : 16;
        race_ignore_begin(); /* blocks reuse each other's heap memory here; the kernel does not order that */
        struct attile_copy *item = realloc(fiber->copies.item, room * sizeof *item);
        race_ignore_end();
        if (!item)
            fiber_refuse(fiber, 0, NULL, "no memory for %u asynchronous copies of one thread", room);
        fiber->copies.item = item;
        fiber->copies.room = room;
    }
    fiber->copies.item[fiber->copies.count++] = copy;
    return !landed;
}

static void commit_copies(struct attile_block *shown, unsigned index) { fiber_of(shown, index)->copies.groups++; }

static int next_copy(struct attile_block *shown, unsigned index, int pending, struct attile_copy *copy) {
    struct fiber *fiber = fiber_of(shown, index);
    unsigned *first = &fiber->copies.first;
    for (unsigned i = *first; i < fiber->copies.count; i++) {
        struct attile_copy *item = &fiber->copies.item[i];
        bool waited_for = pending < 0 || item->group + (unsigned)pending < fiber->copies.groups;
        if (!item->size && waited_for && i == *first)
            ++*first;
        else if (item->size && (waited_for || (pending >= 0 && lands_early(fiber->block)))) {
            *copy = *item;
            item->size = 0;
            return 1;
        }
    }
    if (*first == fiber->copies.count)
        *first = fiber->copies.count = 0;
    return 0;
}

static void *copy(void *to, const void *from, unsigned long long size) { return memmove(to, from, size); }
static void *fill(void *to, int byte, unsigned long long size) { return memset(to, byte, size); }

static const struct attile_host host = {
    .barrier = collective_barrier,
    .collective = collective_warp,
    .access = check_access,
    .refuse = refuse,
    .copy_start = start_copy,
    .copy_commit = commit_copies,
    .copy_next = next_copy,
    .named = units_named,
    .transaction = units_transaction,
    .registers = units_registers,
    .box = units_box,
    .floats = units_floats,
    .send = units_send,
    .boxes = units_boxes,
    .product = units_product,
    .products = units_products,
    .cluster = cluster_barrier,
    .dependency = end_dependency,
    .await = counter_await,
    .order = order_blocks,
    .copy = copy,
    .fill = fill,
};

/* --- running ------------------------------------------------------------------------------------------------------- */

/* ThreadSanitizer remembers accesses and releases by address. Fresh memory keeps it from taking one block's stack or
   barrier for another's. */
static bool renew_memory(struct block *block) {
    block->guarded = 0;
    forget_order(block);
    block->order = map(NULL, ORDER_ROOM);
    return block->order && map(block->region, ATTILE_REGION) && map(block->shared, SHARED_ROOM);
}

/* Returns the thread's identity for ThreadSanitizer. */
static void *identify(struct block *block, struct fiber *fiber) {
    if (!race_present())
        return NULL;
    void **identity = &fiber->identity[block->runs % RACE_SETS];
    char name[64];
    snprintf(name, sizeof name, "block %u, thread %u", block->shown->index, fiber->index);
    if (!*identity)
        *identity = race_create();
    race_name(*identity, name);
    return *identity;
}

bool block_start(struct block *block, struct launch *launch, struct cluster *cluster, unsigned index) {
    if (launch->mode == ATT_HOST_RACE && !renew_memory(block))
        return false;
    guard_stacks(block, launch->threads);
    memset(block->shared, 0xff, launch->shared); /* NaN, so that unwritten memory is no plausible number */
    *block->shown = (struct attile_block){
        .host = &host,
        .device = block,
        .index = index,
        .grid = launch->grid,
        .rank = index % cluster->blocks,
        .cluster = cluster->blocks,
        .threads = launch->threads,
        .shared = block->shared,
        .shared_size = launch->shared,
    };
    block->launch = launch;
    block->cluster = cluster;
    block->first = block->ready_count = block->back_count = block->ended = 0;
    block->random = launch->seed ? (launch->seed + index) * 0x9e3779b97f4a7c15 | 1 : 0;
    hold_a_warp(block);
    block->runs++;
    block->couriers = false;
    collective_reset(block);
    units_reset(block);
    context_here(&block->scheduler);
    for (unsigned i = 0; i < launch->threads; i++) {
        struct fiber *fiber = &block->fiber[i];
        fiber->block = block;
        fiber->index = i;
        fiber->copies.first = fiber->copies.count = fiber->copies.groups = 0;
        fiber->depends = fiber->waits = launch->dependent;
        fiber->at_cluster = false;
        unsigned char *low = stack_low(block, i);
        unsigned char *high = block->region + (size_t)(i + 1) * ATTILE_STACK - i % COLORS * COLOR;
        context_make(&fiber->context, low, (size_t)(high - low), run_thread, fiber);
        fiber->context.race = identify(block, fiber);
        make_ready(block, fiber);
    }
    race_release(block); /* work before the launch happens before all its threads */
    return true;
}

void block_count(struct block *block) {
    struct launch *launch = block->launch;
    const unsigned long long *counts = block->shown->count;
    pthread_mutex_lock(&launch->lock);
    launch->counters.global_read += counts[ATTILE_GLOBAL_READ];
    launch->counters.global_written += counts[ATTILE_GLOBAL_WRITTEN];
    launch->counters.shared_read += counts[ATTILE_SHARED_READ];
    launch->counters.shared_written += counts[ATTILE_SHARED_WRITTEN];
    launch->counters.shared_conflicts += counts[ATTILE_SHARED_CONFLICTS];
    pthread_mutex_unlock(&launch->lock);
}

/* True if both wait for the same thing at the same line, or both have ended. */
static bool alike(const struct fiber *a, const struct fiber *b) {
    if (a->state != b->state || a->state == FIBER_ENDED)
        return a->state == b->state;
    return a->wait.what == b->wait.what && a->wait.line == b->wait.line && a->wait.object == b->wait.object;
}

void block_explain(const struct block *block, struct fault *fault) {
    unsigned threads = block->shown->threads;
    char where[32] = "";
    if (block->shown->cluster > 1)
        snprintf(where, sizeof where, "block %u, ", block->shown->index);
    for (unsigned i = 0, end; i < threads; i = end) {
        const struct fiber *fiber = &block->fiber[i];
        for (end = i + 1; end < threads && alike(fiber, &block->fiber[end]);)
            end++;
        text_print(&fault->text, end == i + 1 ? "\n  %sthread %u" : "\n  %sthreads %u to %u", where, i, end - 1);
        if (fiber->state == FIBER_ENDED) {
            text_print(&fault->text, end == i + 1 ? " has ended" : " have ended");
            continue;
        }
        text_print(&fault->text, end == i + 1 ? " waits in %s, line %d" : " wait in %s, line %d", fiber->wait.what,
                   fiber->wait.line);
        fiber->wait.missing(block, fiber, &fault->text);
        if (!fault->line) {
            fault->line = fiber->wait.line;
            fault->block = block->shown->index;
            fault->thread = i;
        }
    }
}

void block_step(struct block *block) { context_switch(&block->scheduler, &take_ready(block)->context); }
