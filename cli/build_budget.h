/* build_budget: which kernels of a bundle fit into so many bytes. A kernel wins at a shape when the library would choose it
   there. First each group (a problem for an architecture) gets its kernel with the most wins, since without any att_find would
   have to compile; then the others follow, most wins first, as far as there is room. Of equals the smaller one, then the
   earlier one. */
#ifndef ATTILE_BUILD_BUDGET_H
#define ATTILE_BUILD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget_item {
    uint64_t bytes;
    int wins;
    int group; /* the number of its first item */
    bool kept; /* the answer */
};

/* Set `kept` of all. Returns the bytes that are kept; when even one kernel a group is too much nothing else is kept, and the
   sum is above `limit`. */
uint64_t budget_keep(struct budget_item *item, int count, uint64_t limit);

/* Does a come before b in a bundle? */
bool budget_before(const struct budget_item *a, const struct budget_item *b);

#endif
