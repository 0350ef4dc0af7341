/* sized: the structs of attile.h that say their size, between a caller's version and ours. An older caller's lacks members
   at its end, which are zero to us; a newer one's has members that we do not know, which must be zero. */
#ifndef ATTILE_SIZED_H
#define ATTILE_SIZED_H

#include "failure.h"

enum sized { SIZED_OPTIONS, SIZED_ARGS, SIZED_KERNEL_INFO, SIZED_SESSION_INFO, SIZED_COUNTERS, SIZED_SHARED_PREFIX };

/* The caller's struct as ours, into *known, which begins with our size then. `name` is what messages call it. */
enum att_status sized_read(enum sized which, const char *name, const void *callers, void *known,
                           struct failure *failure);

/* Our struct into the caller's, as far as it reaches; the rest of the caller's is zero. Checks `size` of the caller's. */
enum att_status sized_write(enum sized which, const char *name, const void *known, void *callers,
                            struct failure *failure);

#endif
