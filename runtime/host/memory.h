/* memory: the host device's global memory: a sorted list of buffers, each between two guard zones of a known pattern,
   so that stray accesses are recognised when they are watched and stray writes are found afterwards when not. */
#ifndef ATTILE_HOST_MEMORY_H
#define ATTILE_HOST_MEMORY_H

#include "failure.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    unsigned char *base; /* 256-byte aligned */
    size_t size;
};

struct memory {
    pthread_mutex_t lock;
    struct buffer *buffer; /* by address */
    size_t count, room;
};

void memory_open(struct memory *memory);
void memory_close(struct memory *memory); /* frees what is left */

/* A new buffer, filled with 0xff (NaN in every float format); 0 bytes are fine. */
enum att_status memory_alloc(struct memory *memory, size_t bytes, void **base, struct failure *failure);
/* ATT_INVALID_ARGUMENT when it is none of ours, ATT_LAUNCH_FAILED when its guard zones were written; freed all the same. */
enum att_status memory_free(struct memory *memory, void *base, struct failure *failure);

/* The buffer that holds all of [address, address + size); false = none, then *nearest is the one whose end or start is
   closest, if any (size 0 and base null = there is none). */
bool memory_find(struct memory *memory, uintptr_t address, size_t size, struct buffer *buffer, struct buffer *nearest);

/* Are all guard zones intact? ATT_LAUNCH_FAILED names the first that is not, and restores it. */
enum att_status memory_check(struct memory *memory, struct failure *failure);

#endif
