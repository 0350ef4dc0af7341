/* memory: the host device's global memory, a sorted list of buffers. A guard zone with a known pattern lies on either side of each
   buffer: checked modes catch an access to it, and fast mode finds a write to it afterwards. */
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
void memory_close(struct memory *memory); /* frees the buffers that are left */

/* A new buffer, filled with 0xff (NaN in every float format). 0 bytes are allowed. */
enum att_status memory_alloc(struct memory *memory, size_t bytes, void **base, struct failure *failure);
/* ATT_INVALID_ARGUMENT when it is no buffer of this memory; ATT_LAUNCH_FAILED when a guard zone was overwritten, and the buffer is
   freed even so. */
enum att_status memory_free(struct memory *memory, void *base, struct failure *failure);

/* The buffer that contains [address, address + size). False = none does; then *nearest is the buffer with the closest end or
   start (base null = there is no buffer). */
bool memory_find(struct memory *memory, uintptr_t address, size_t size, struct buffer *buffer, struct buffer *nearest);

/* Are all guard zones intact? ATT_LAUNCH_FAILED names the first that is not, and restores it. */
enum att_status memory_check(struct memory *memory, struct failure *failure);

#endif
