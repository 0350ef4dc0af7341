/* by_sizes: the kernels that launches of some sizes take in place of one that was found without sizes (choose_class). Each is
   compiled when a launch first takes it, or by att_prepare. Which one a launch takes depends on its sizes and its room alone, so
   equal launches have equal bits. */
#ifndef ATTILE_BY_SIZES_H
#define ATTILE_BY_SIZES_H

#include "choose.h"

struct att_kernel;

struct by_sizes {
    struct att_kernel *found;
    struct request request; /* which found it */
    /* Null = no launch took it yet; `found` = that one answers. The found kernel is a user of the others. */
    _Atomic(struct att_kernel *) kernel[SIZE_CLASSES];
};

/* The class of a launch of these sizes, -1 = none. `room`: it has a workspace. */
int by_sizes_class(const struct by_sizes *by_sizes, const struct shape *shape, bool room);

/* The kernel that launches of a class take, null where that is the found one: no other is better, or it does not compile. */
enum att_status by_sizes_take(struct by_sizes *by_sizes, int size_class, struct att_kernel **kernel,
                              struct failure *failure);

/* Is that known, and nothing to be compiled? */
bool by_sizes_is_ready(const struct by_sizes *by_sizes, int size_class);

/* Compile and load all of them, side by side. */
enum att_status by_sizes_prepare(struct by_sizes *by_sizes, struct failure *failure);

#endif
