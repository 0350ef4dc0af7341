/* by_sizes: the kernels that launches of some sizes use instead of one that was found without sizes: the classes of
   choose_class, and sizes that the tables know. Each is compiled when a launch first uses it, or by att_prepare. Only
   the sizes of a launch and whether it has a workspace decide which one it uses, so equal launches give equal bits. */
#ifndef ATTILE_BY_SIZES_H
#define ATTILE_BY_SIZES_H

#include "choose.h"

#include <stdatomic.h>
#include <stdlib.h>

struct att_kernel;

/* The classes of choose_class, then one for each of the measured sizes. */
enum { SIZE_CLASSES = RULE_CLASSES + MEASURED_SIZES, REMEMBERED = 64 };

struct by_sizes {
    struct att_kernel *found;
    struct request request; /* the request that found it */
    /* Null = no launch has used it yet; `found` = the found kernel serves this class. The found kernel is a user of the
       others. */
    _Atomic(struct att_kernel *) kernel[SIZE_CLASSES];
    _Atomic(struct measured_sizes *) measured; /* null = not listed yet; owned */
    /* The measured sizes that launches took before: a hash of their own sizes, whose last byte is the number of those
       that they took + 2. 0 = none. Looking for the nearest sizes takes a microsecond. */
    _Atomic uint64_t remembered[REMEMBERED];
};

/* Frees *by_sizes, but none of the kernels. Accepts null. */
static inline void by_sizes_free(struct by_sizes *by_sizes) {
    if (by_sizes)
        free(atomic_load(&by_sizes->measured));
    free(by_sizes);
}

/* Returns the class of a launch of these sizes, -1 = none. `room`: it has a workspace. */
int by_sizes_class(struct by_sizes *by_sizes, const struct shape *shape, bool room);

/* Sets *kernel to the one that launches of a class use, null if that is the found one: no other is better, or it does
   not compile. */
enum att_status by_sizes_take(struct by_sizes *by_sizes, int size_class, struct att_kernel **kernel,
                              struct failure *failure);

/* True if the kernel of the class is known, so that nothing needs to be compiled. */
bool by_sizes_is_ready(const struct by_sizes *by_sizes, int size_class);

/* Compiles and loads all of them in parallel. */
enum att_status by_sizes_prepare(struct by_sizes *by_sizes, struct failure *failure);

#endif
