/* tma: copies of boxes between tensors and shared memory (cp.async.bulk.tensor), in the 128-byte swizzle, copies of
   floats to shared memory (cp.async.bulk), from global memory or from the shared memory of another block, and of floats
   in shared memory to global memory, which are stored (cp.async.bulk) or added (cp.reduce.async.bulk). See units.h. All
   checks are made when a copy is issued, so that copying cannot fail. */
#include "cluster.h"
#include "race.h"
#include "units.h"

#include <string.h>

enum { CHUNK = 16, SWIZZLE_BYTES = 128 };

static size_t row_bytes(const struct host_map *map) { return (size_t)map->box[0] * (size_t)map->element; }
static int box_rows(const struct host_map *map) { return map->box[1] * map->box[2]; }
static size_t box_bytes(const struct host_map *map) { return row_bytes(map) * (size_t)box_rows(map); }
static size_t copy_bytes(const struct copy *copy) { return copy->floats ? copy->bytes : box_bytes(&copy->map); }

/* The part of a box's row that is within the tensor: columns [col, end) of the box; empty if there is none. */
struct part {
    int64_t col, end;
    unsigned char *data; /* of column `col` */
};

static struct part inside(const struct copy *copy, int row) {
    const struct host_map *map = &copy->map;
    int64_t place[] = {copy->place[0], (int64_t)copy->place[1] + row % map->box[1],
                       (int64_t)copy->place[2] + row / map->box[1], copy->place[3]};
    struct part part = {.col = place[0] < 0 ? -place[0] : 0, .end = map->dim[0] - place[0], .data = map->data};
    part.end = part.end < map->box[0] ? part.end : map->box[0];
    for (int i = 1; i < 4; i++) {
        if (place[i] < 0 || place[i] >= map->dim[i])
            return (struct part){0};
        part.data += place[i] * map->stride[i - 1];
    }
    part.data += (place[0] + part.col) * map->element;
    return part.col < part.end ? part : (struct part){0};
}

static size_t part_bytes(const struct copy *copy, const struct part *part) {
    return (size_t)((part->end - part->col) * copy->map.element);
}

/* Copies one row of the box, one chunk of 16 bytes at a time. */
static void copy_row(const struct copy *copy, unsigned char *shared, int row) {
    const struct host_map *map = &copy->map;
    const struct part part = inside(copy, row);
    int64_t element = map->element, per_chunk = CHUNK / element;
    for (int64_t col = 0; col < map->box[0]; col += per_chunk) {
        size_t linear = copy->shared + (size_t)row * row_bytes(map) + (size_t)(col * element);
        unsigned char *chunk = shared + (linear ^ (linear / SWIZZLE_BYTES % 8) * CHUNK);
        int64_t from = col > part.col ? col : part.col;
        int64_t end = col + per_chunk < part.end ? col + per_chunk : part.end;
        size_t bytes = from < end ? (size_t)((end - from) * element) : 0;
        unsigned char *there = chunk + (bytes ? (from - col) * element : 0);
        if (copy->load && bytes < CHUNK)
            memset(chunk, 0, CHUNK);
        if (bytes && copy->load)
            memcpy(there, part.data + (from - part.col) * element, bytes);
        else if (bytes)
            memcpy(part.data + (from - part.col) * element, there, bytes);
    }
}

/* Reports and counts the access to what is not in the shared memory of a target; additions count themselves. */
static void access_source(struct block *block, const struct copy *copy) {
    if (copy->floats && copy->load)
        order_access(block, copy->floats, copy->bytes, false, copy->pc);
    if (copy->floats && copy->load && block->launch->mode == ATT_HOST_CHECK)
        block->shown->count[copy->sent ? ATTILE_SHARED_READ : ATTILE_GLOBAL_READ] += copy->bytes;
    if (copy->floats)
        return;
    for (int row = 0; row < box_rows(&copy->map); row++) {
        const struct part part = inside(copy, row);
        order_access(block, part.data, part_bytes(copy, &part), !copy->load, copy->pc);
        if (block->launch->mode == ATT_HOST_CHECK)
            block->shown->count[copy->load ? ATTILE_GLOBAL_READ : ATTILE_GLOBAL_WRITTEN] += part_bytes(copy, &part);
    }
}

/* Copies between the source and the shared memory of one block. */
static void copy_data(struct block *block, const struct copy *copy) {
    order_access(block, block->shared + copy->shared, copy_bytes(copy), copy->load, copy->pc);
    race_ignore_begin();
    if (copy->floats)
        memcpy(block->shared + copy->shared, copy->floats, copy->bytes);
    for (int row = 0; !copy->floats && row < box_rows(&copy->map); row++)
        copy_row(copy, block->shared, row);
    race_ignore_end();
    if (block->launch->mode == ATT_HOST_CHECK)
        block->shown->count[copy->load ? ATTILE_SHARED_WRITTEN : ATTILE_SHARED_READ] += copy_bytes(copy);
}

/* Delivers the data to one block of the cluster, and its bytes to the barrier there. */
static void deliver(struct block *asking, struct transaction *barrier, const struct copy *copy) {
    struct block *block = barrier->block;
    if (block != asking && block_ended(block)) {
        struct fault fault = {.block = asking->shown->index, .thread = copy->fiber->index, .pc = copy->pc};
        text_print(&fault.text, "%s block %u of the cluster, which has ended",
                   copy->sent ? "copy_to_block, to" : "tma_load_multicast into", block->shown->index);
        launch_fault(block->launch, &fault);
        return;
    }
    copy_data(block, copy);
    order_access(block, barrier->word, sizeof *barrier->word, false, copy->pc);
    order_done(block, transaction_slot(barrier), barrier->phase);
    transaction_bytes(barrier, (int)copy_bytes(copy));
}

static void add_atomically(float *to, float value) {
    uint32_t old = __atomic_load_n((uint32_t *)to, __ATOMIC_RELAXED), sum;
    do {
        float was;
        memcpy(&was, &old, sizeof was);
        was += value;
        memcpy(&sum, &was, sizeof sum);
    } while (!__atomic_compare_exchange_n((uint32_t *)to, &old, sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Stores or adds. */
static void store_floats(struct block *block, const struct copy *copy) {
    const float *values = (const float *)(block->shared + copy->shared);
    order_access(block, values, copy->bytes, false, copy->pc);
    if (copy->adds) {
        for (size_t i = 0; i < copy->bytes / sizeof *values; i++)
            add_atomically(&copy->floats[i], values[i]);
    } else {
        order_access(block, copy->floats, copy->bytes, true, copy->pc);
        race_ignore_begin();
        memcpy(copy->floats, values, copy->bytes);
        race_ignore_end();
    }
    if (block->launch->mode == ATT_HOST_CHECK) {
        block->shown->count[ATTILE_SHARED_READ] += copy->bytes;
        block->shown->count[ATTILE_GLOBAL_WRITTEN] += copy->bytes;
    }
}

static void perform(struct block *block, const struct copy *copy) {
    void **identity = &block->units->copier[copy->copier][block->runs % RACE_SETS];
    void *self = order_be_unit(block, identity, "TMA", ORDER_COPIES + copy->copier);
    access_source(block, copy);
    if (copy->load) {
        for (int rank = 0; rank < ATTILE_CLUSTER; rank++)
            if (copy->barrier[rank])
                deliver(block, copy->barrier[rank], copy);
    } else {
        if (copy->floats)
            store_floats(block, copy);
        else
            copy_data(block, copy);
        block->units->thread[copy->fiber->index].storing--;
        order_done(block, ORDER_STORES + copy->fiber->index / ATTILE_WARP, 0);
        race_release(block->launch);
        queue_wake(&block->units->storing);
    }
    order_be(self);
}

void copy_run(struct block *block, unsigned which) {
    struct units *units = block->units;
    struct copy copy = units->copy[which];
    units->copy[which] = units->copy[--units->copies];
    perform(block, &copy);
}

/* --- what kernels call --------------------------------------------------------------------------------------------- */

static void check_room(struct fiber *fiber, const char *name, int line) {
    if (fiber->block->units->copies == UNITS_COPIES)
        fiber_refuse(fiber, line, NULL, "%s: more than %d copies under way in a block", name, UNITS_COPIES);
}

static void check(struct fiber *fiber, const struct attile_box *box, const struct host_map *map, int line) {
    struct block *block = fiber->block;
    const char *name = box->barrier ? "tma_load" : "tma_store";
    if (!tensor_map_is_sound(map))
        fiber_refuse(fiber, line, NULL, "%s: %p is no tensor map", name, (const void *)map);
    size_t place = (size_t)((unsigned char *)box->shared - block->shared), size = box_bytes(map);
    if (place % SWIZZLE_BYTES || place > block->shown->shared_size || size > block->shown->shared_size - place)
        fiber_refuse(fiber, line, NULL,
                     "%s: %zu bytes at byte %zu of %llu bytes of shared memory, expected them within, at a multiple of "
                     "%d",
                     name, size, place, block->shown->shared_size, SWIZZLE_BYTES);
    for (int i = 0; i < 4 && !box->barrier; i++)
        if (box->place[i] < 0)
            fiber_refuse(fiber, line, NULL, "tma_store to (%d, %d, %d, %d): expected 0 or more", box->place[0],
                         box->place[1], box->place[2], box->place[3]);
    check_room(fiber, name, line);
}

static void check_tensor(struct fiber *fiber, const struct copy *copy, int line) {
    struct buffer buffer = {0}, nearest;
    for (int row = 0; row < box_rows(&copy->map); row++) {
        const struct part part = inside(copy, row);
        size_t bytes = part_bytes(copy, &part), offset = (uintptr_t)part.data - (uintptr_t)buffer.base;
        if (!bytes || (offset < buffer.size && bytes <= buffer.size - offset))
            continue;
        if (!memory_find(fiber->block->launch->memory, (uintptr_t)part.data, bytes, &buffer, &nearest))
            fiber_refuse(fiber, line, NULL,
                         "out of bounds: %s (%d, %d, %d, %d), and what follows, is not within one buffer",
                         copy->load ? "tma_load: the box at" : "tma_store: the box at", copy->place[0], copy->place[1],
                         copy->place[2], copy->place[3]);
    }
}

/* Finds the barriers that count the bytes of a load, in the blocks of `mask`, 0 = this one. Its destination is NaN until
   the bytes have arrived. */
static void find_targets(struct fiber *fiber, void *barrier, unsigned mask, struct copy *copy, int line) {
    struct cluster *cluster = fiber->block->cluster;
    mask = mask ? mask : 1u << fiber->block->shown->rank;
    if (mask >> cluster->blocks)
        fiber_refuse(fiber, line, NULL, "tma_load_multicast to ranks 0x%x of a cluster of %u blocks", mask,
                     cluster->blocks);
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        if (mask >> rank & 1)
            copy->barrier[rank] = transaction_find(fiber, cluster->block[rank], barrier, line);
    race_ignore_begin();
    for (unsigned rank = 0; rank < cluster->blocks; rank++)
        if (mask >> rank & 1)
            memset(cluster->block[rank]->shared + copy->shared, 0xff, copy_bytes(copy));
    race_ignore_end();
}

/* Performs the copy now or queues it for later. */
static void issue(struct block *block, const struct copy *copy) {
    struct units *units = block->units;
    order_ask(copy->fiber, ORDER_COPIES + copy->copier);
    if (units->timing == UNITS_EARLY)
        perform(block, copy);
    else
        units->copy[units->copies++] = *copy;
}

void units_box(struct attile_block *shown, unsigned index, const struct attile_box *box, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    struct units *units = block->units;
    order_use_couriers(block);
    fiber_check_dependency(fiber, line, NULL);
    check(fiber, box, box->map, line);
    struct copy copy = {.map = *(const struct host_map *)box->map,
                        .shared = (size_t)((unsigned char *)box->shared - block->shared),
                        .load = box->barrier,
                        .fiber = fiber,
                        .copier = units->copies_asked++ % ORDER_COPIERS,
                        .pc = __builtin_return_address(0)};
    memcpy(copy.place, box->place, sizeof copy.place);
    check_tensor(fiber, &copy, line);
    if (copy.load) {
        find_targets(fiber, box->barrier, box->mask, &copy, line);
    } else {
        units->thread[index].stores++;
        units->thread[index].storing++;
    }
    issue(block, &copy);
}

void units_floats(struct attile_block *shown, unsigned index, const struct attile_floats *asked, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    struct units *units = block->units;
    order_use_couriers(block);
    fiber_check_dependency(fiber, line, NULL);
    const char *name = asked->barrier ? "tma_load_floats" : asked->adds ? "tma_add" : "tma_store_floats";
    size_t place = (size_t)((unsigned char *)asked->shared - block->shared), size = (size_t)asked->bytes;
    struct buffer buffer, nearest;
    if (asked->bytes <= 0 || size % CHUNK || place % CHUNK || (uintptr_t)asked->global % CHUNK ||
        place > shown->shared_size || size > shown->shared_size - place)
        fiber_refuse(fiber, line, NULL,
                     "%s: %d bytes at byte %zu of %llu bytes of shared memory and at %p, expected them within, all at "
                     "multiples of %d",
                     name, asked->bytes, place, shown->shared_size, (void *)asked->global, CHUNK);
    if (!memory_find(block->launch->memory, (uintptr_t)asked->global, size, &buffer, &nearest))
        fiber_refuse(fiber, line, NULL, "out of bounds: %s: the %d bytes at %p are not within one buffer", name,
                     asked->bytes, (void *)asked->global);
    check_room(fiber, name, line);
    struct copy copy = {.floats = asked->global,
                        .adds = asked->adds,
                        .bytes = size,
                        .shared = place,
                        .load = asked->barrier,
                        .fiber = fiber,
                        .copier = units->copies_asked++ % ORDER_COPIERS,
                        .pc = __builtin_return_address(0)};
    if (copy.load) {
        find_targets(fiber, asked->barrier, 0, &copy, line);
    } else {
        units->thread[index].stores++;
        units->thread[index].storing++;
    }
    issue(block, &copy);
}

static bool in_shared_memory(const struct block *block, const void *from, size_t size) {
    const size_t place = (size_t)((const unsigned char *)from - block->shared), all = block->shown->shared_size;
    return place % CHUNK == 0 && place <= all && size <= all - place;
}

void units_send(struct attile_block *shown, unsigned index, const struct attile_sent *sent, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    struct units *units = block->units;
    order_use_couriers(block);
    const unsigned blocks = block->cluster->blocks;
    const size_t size = (size_t)sent->bytes;
    if (sent->rank < 0 || (unsigned)sent->rank >= blocks)
        fiber_refuse(fiber, line, NULL, "copy_to_block rank %d of a cluster of %u blocks", sent->rank, blocks);
    if (sent->bytes <= 0 || size % CHUNK || !in_shared_memory(block, sent->from, size) ||
        !in_shared_memory(block, sent->to, size))
        fiber_refuse(fiber, line, NULL,
                     "copy_to_block: %d bytes from byte %td to byte %td of %llu bytes of shared memory, expected them "
                     "within, all at multiples of %d",
                     sent->bytes, (const unsigned char *)sent->from - block->shared,
                     (unsigned char *)sent->to - block->shared, shown->shared_size, CHUNK);
    check_room(fiber, "copy_to_block", line);
    struct copy copy = {.floats = (float *)(uintptr_t)sent->from,
                        .sent = true,
                        .bytes = size,
                        .shared = (size_t)((unsigned char *)sent->to - block->shared),
                        .load = true,
                        .fiber = fiber,
                        .copier = units->copies_asked++ % ORDER_COPIERS,
                        .pc = __builtin_return_address(0)};
    find_targets(fiber, sent->barrier, 1u << sent->rank, &copy, line);
    issue(block, &copy);
}

static void missing_stores(const struct block *block, const struct fiber *fiber, struct text *text) {
    text_print(text, ": %u stores are under way", block->units->thread[fiber->index].storing);
}

void units_boxes(struct attile_block *shown, unsigned index, int operation, int line) {
    struct fiber *fiber = fiber_of(shown, index);
    struct block *block = fiber->block;
    struct units_thread *thread = &block->units->thread[index];
    order_use_couriers(block);
    if (operation == ATTILE_FENCE) {
        order_fence(fiber);
    } else if (operation == ATTILE_COMMIT) {
        thread->grouped += thread->stores;
        thread->stores = 0;
    } else {
        while (thread->grouped && thread->storing > thread->stores)
            fiber_wait(fiber, &block->units->storing, (struct wait){"tma_store_wait_read()", line, 0, missing_stores});
        thread->grouped = 0;
        order_acquire(fiber, fiber->block, ORDER_STORES + index / ATTILE_WARP, 0);
    }
}
