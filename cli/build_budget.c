#include "build_budget.h"

bool budget_before(const struct budget_item *a, const struct budget_item *b) {
    return a->wins != b->wins ? a->wins > b->wins : a->bytes < b->bytes;
}

/* Returns the best item that is not kept yet, fits, and belongs to `group` (-1: any group); -1 = none. */
static int find_best(const struct budget_item *item, int count, int group, uint64_t room) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!item[i].kept && item[i].bytes <= room && (group < 0 || item[i].group == group) &&
            (best < 0 || budget_before(&item[i], &item[best])))
            best = i;
    return best;
}

uint64_t budget_keep(struct budget_item *item, int count, uint64_t limit) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        item[i].kept = false;
    for (int group = 0; group < count; group++) {
        int best = item[group].group == group ? find_best(item, count, group, UINT64_MAX) : -1;
        if (best < 0)
            continue;
        item[best].kept = true;
        sum += item[best].bytes;
    }
    for (int best; sum <= limit && (best = find_best(item, count, -1, limit - sum)) >= 0;) {
        item[best].kept = true;
        sum += item[best].bytes;
    }
    return sum;
}
