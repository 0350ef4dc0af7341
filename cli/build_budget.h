/* build_budget: which kernels of a bundle fit into a given number of bytes. A kernel wins at a shape if the library
   would choose it there. First each group (a problem for an architecture) gets its kernel with the most wins, since
   without one att_find would have to compile. The others follow, most wins first, if they fit. Among equals the smaller
   one comes first, then the earlier one. */
#ifndef ATTILE_BUILD_BUDGET_H
#define ATTILE_BUILD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget_item {
    uint64_t bytes;
    int wins;
    int group; /* index of the first item of the group */
    bool kept; /* the result */
};

/* Sets `kept` of all items. Returns the bytes that are kept. If even one kernel per group is too much, nothing else is
   kept, and the sum exceeds `limit`. */
uint64_t budget_keep(struct budget_item *item, int count, uint64_t limit);

/* True if a comes before b in a bundle. */
bool budget_before(const struct budget_item *a, const struct budget_item *b);

#endif
