/* sized: converts the structs of attile.h that have a size between a caller's version and ours. An older caller's
   struct lacks members at its end, which are zero for us; a newer caller's has members that we do not know, which must
   be zero. */
#ifndef ATTILE_SIZED_H
#define ATTILE_SIZED_H

#include "failure.h"

enum sized { SIZED_OPTIONS, SIZED_ARGS, SIZED_KERNEL_INFO, SIZED_SESSION_INFO, SIZED_COUNTERS, SIZED_SHARED_PREFIX };

/* Converts the caller's struct to ours, in *known, which then begins with our size. `name` is its name in messages. */
enum att_status sized_read(enum sized which, const char *name, const void *callers, void *known,
                           struct failure *failure);

/* Copies our struct to the caller's, as far as it reaches; the rest of the caller's is set to zero. Checks the caller's
   `size`. */
enum att_status sized_write(enum sized which, const char *name, const void *known, void *callers,
                            struct failure *failure);

#endif
