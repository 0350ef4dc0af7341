/* memory: the host device's global memory, a sorted list of buffers. Each buffer has a guard zone with a known pattern
   on either side: checked modes catch an access to it, and fast mode finds a write to it afterwards. */
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
    struct buffer *buffer; /* sorted by address */
    size_t count, room;
};

void memory_open(struct memory *memory);
void memory_close(struct memory *memory); /* frees the buffers that are left */

/* Allocates a buffer, filled with 0xff (NaN in every float format). 0 bytes are allowed. */
enum att_status memory_alloc(struct memory *memory, size_t bytes, void **base, struct failure *failure);
/* ATT_INVALID_ARGUMENT if it is not a buffer of this memory; ATT_LAUNCH_FAILED if a guard zone was overwritten, but the
   buffer is freed nevertheless. */
enum att_status memory_free(struct memory *memory, void *base, struct failure *failure);

/* Finds the buffer that contains [address, address + size). False = there is none; *nearest is then the buffer with the
   closest end or start (base null = there is no buffer). */
bool memory_find(struct memory *memory, uintptr_t address, size_t size, struct buffer *buffer, struct buffer *nearest);

/* Checks that all guard zones are intact. ATT_LAUNCH_FAILED names the first that is not; all are restored. */
enum att_status memory_check(struct memory *memory, struct failure *failure);

#endif
