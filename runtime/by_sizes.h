/* by_sizes: the kernels that launches of some sizes use instead of one that was found without sizes (choose_class).
   Each is compiled when a launch first uses it, or by att_prepare. Only the sizes of a launch and whether it has a
   workspace decide which one it uses, so equal launches give equal bits. */
#ifndef ATTILE_BY_SIZES_H
#define ATTILE_BY_SIZES_H

#include "choose.h"

struct att_kernel;

struct by_sizes {
    struct att_kernel *found;
    struct request request; /* the request that found it */
    /* Null = no launch has used it yet; `found` = the found kernel serves this class. The found kernel is a user of the
       others. */
    _Atomic(struct att_kernel *) kernel[SIZE_CLASSES];
};

/* Returns the class of a launch of these sizes, -1 = none. `room`: it has a workspace. */
int by_sizes_class(const struct by_sizes *by_sizes, const struct shape *shape, bool room);

/* Sets *kernel to the one that launches of a class use, null if that is the found one: no other is better, or it does
   not compile. */
enum att_status by_sizes_take(struct by_sizes *by_sizes, int size_class, struct att_kernel **kernel,
                              struct failure *failure);

/* True if the kernel of the class is known, so that nothing needs to be compiled. */
bool by_sizes_is_ready(const struct by_sizes *by_sizes, int size_class);

/* Compiles and loads all of them in parallel. */
enum att_status by_sizes_prepare(struct by_sizes *by_sizes, struct failure *failure);

#endif
