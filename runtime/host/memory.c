/* memory: see memory.h.   [ guard | buffer, padded to 256 | guard ] */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, GUARD_BYTE = 0xa5 };

void memory_open(struct memory *memory) {
    *memory = (struct memory){0};
    pthread_mutex_init(&memory->lock, NULL);
}

static unsigned char *block_of(const struct buffer *buffer) { return buffer->base - GUARD; }

static size_t padded(size_t size) { return (size + GUARD - 1) / GUARD * GUARD; }

void memory_close(struct memory *memory) {
    for (size_t i = 0; i < memory->count; i++)
        free(block_of(&memory->buffer[i]));
    free(memory->buffer);
    pthread_mutex_destroy(&memory->lock);
}

/* Counts the buffers that start at or below the address. */
static size_t below(const struct memory *memory, uintptr_t address) {
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)memory->buffer[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool reserve(struct memory *memory) {
    if (memory->count < memory->room)
        return true;
    size_t room = memory->room ? 2 * memory->room : 16;
    struct buffer *buffer = realloc(memory->buffer, room * sizeof *buffer);
    if (!buffer)
        return false;
    memory->buffer = buffer;
    memory->room = room;
    return true;
}

static void set_guards(const struct buffer *buffer) {
    unsigned char *end = buffer->base + buffer->size;
    memset(block_of(buffer), GUARD_BYTE, GUARD);
    memset(end, GUARD_BYTE, padded(buffer->size) - buffer->size + GUARD);
}

enum att_status memory_alloc(struct memory *memory, size_t bytes, void **base, struct failure *failure) {
    *base = NULL;
    if (bytes > SIZE_MAX / 2)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", bytes);
    unsigned char *block = aligned_alloc(GUARD, padded(bytes) + 2 * GUARD);
    pthread_mutex_lock(&memory->lock);
    if (!block || !reserve(memory)) {
        pthread_mutex_unlock(&memory->lock);
        free(block);
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory for a buffer of %zu bytes", bytes);
    }
    struct buffer buffer = {block + GUARD, bytes};
    size_t at = below(memory, (uintptr_t)buffer.base);
    memmove(&memory->buffer[at + 1], &memory->buffer[at], (memory->count - at) * sizeof buffer);
    memory->buffer[at] = buffer;
    memory->count++;
    pthread_mutex_unlock(&memory->lock);
    memset(buffer.base, 0xff, bytes);
    set_guards(&buffer);
    *base = buffer.base;
    return ATT_OK;
}

/* Finds the first changed byte of the guard zones, as an offset from the buffer's base. */
static bool damaged(const struct buffer *buffer, ptrdiff_t *offset) {
    for (ptrdiff_t i = -GUARD; i < 0; i++)
        if (buffer->base[i] != GUARD_BYTE)
            return *offset = i, true;
    ptrdiff_t end = (ptrdiff_t)(padded(buffer->size) + GUARD);
    for (ptrdiff_t i = (ptrdiff_t)buffer->size; i < end; i++)
        if (buffer->base[i] != GUARD_BYTE)
            return *offset = i, true;
    return false;
}

static enum att_status report(const struct buffer *buffer, ptrdiff_t offset, struct failure *failure) {
    return failure_set(failure, ATT_LAUNCH_FAILED,
                       "out of bounds: byte %td of a buffer of %zu bytes was written by a kernel; "
                       "host mode `check` names the statement",
                       offset, buffer->size);
}

enum att_status memory_free(struct memory *memory, void *base, struct failure *failure) {
    if (!base)
        return ATT_OK;
    pthread_mutex_lock(&memory->lock);
    size_t at = below(memory, (uintptr_t)base);
    if (at == 0 || memory->buffer[at - 1].base != base) {
        pthread_mutex_unlock(&memory->lock);
        return failure_set(failure, ATT_INVALID_ARGUMENT, "%p is not a buffer of this session, or was freed before",
                           base);
    }
    struct buffer buffer = memory->buffer[at - 1];
    memmove(&memory->buffer[at - 1], &memory->buffer[at], (memory->count - at) * sizeof buffer);
    memory->count--;
    pthread_mutex_unlock(&memory->lock);
    ptrdiff_t offset;
    enum att_status status = damaged(&buffer, &offset) ? report(&buffer, offset, failure) : ATT_OK;
    free(block_of(&buffer));
    return status;
}

static uintptr_t distance(const struct buffer *buffer, uintptr_t address) {
    uintptr_t low = (uintptr_t)buffer->base, end = low + buffer->size;
    return address < low ? low - address : address < end ? 0 : address - end;
}

bool memory_find(struct memory *memory, uintptr_t address, size_t size, struct buffer *buffer, struct buffer *nearest) {
    pthread_mutex_lock(&memory->lock);
    size_t at = below(memory, address);
    bool found = false;
    *nearest = (struct buffer){0};
    if (at > 0) {
        *nearest = *buffer = memory->buffer[at - 1];
        uintptr_t offset = address - (uintptr_t)buffer->base;
        found = offset < buffer->size && size <= buffer->size - offset;
    }
    if (!found && at < memory->count &&
        (!nearest->base || distance(&memory->buffer[at], address) < distance(nearest, address)))
        *nearest = memory->buffer[at];
    pthread_mutex_unlock(&memory->lock);
    return found;
}

enum att_status memory_check(struct memory *memory, struct failure *failure) {
    enum att_status status = ATT_OK;
    pthread_mutex_lock(&memory->lock);
    for (size_t i = 0; i < memory->count; i++) {
        ptrdiff_t offset;
        if (!damaged(&memory->buffer[i], &offset))
            continue;
        if (status == ATT_OK)
            status = report(&memory->buffer[i], offset, failure);
        set_guards(&memory->buffer[i]);
    }
    pthread_mutex_unlock(&memory->lock);
    return status;
}
