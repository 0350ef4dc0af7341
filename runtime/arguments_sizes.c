/* arguments_sizes: the sizes that shapes.def and kernels allow, and the size of an element. */
#include "arguments.h"

#include <inttypes.h>
#include <limits.h>

int element_size(int dtype) { return dtype == dtype_fp32 ? 4 : dtype <= dtype_bf16 ? 2 : 1; }

/* Kernels hold most sizes in an int and advance by a tile: the last step must not overflow. */
enum { SIZE_MOST = INT_MAX - 1023 };
/* Attention kernels divide numbers of heads by reciprocals, which are exact up to this (templates/work/quotient.cuh). */
enum { HEADS_MOST = 1 << 20 };

static int64_t most_of(enum shape_id id, int family) {
    bool attention = family == family_attention_forward || family == family_attention_backward;
    return family == family_softmax ? INT64_MAX : id == SHAPE_heads && attention ? HEADS_MOST : SIZE_MOST;
}

static enum att_status check_size(enum shape_id id, int64_t value, int64_t most, struct failure *failure) {
    const struct shape_info *info = &shape_table[id];
    if (value >= info->least && value <= most)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is %" PRId64 ", expected %" PRId64 " to %" PRId64 " (%s)",
                       info->name, value, info->least, most, info->about);
}

enum att_status arguments_check_sizes(const struct shape *shape, int family, struct failure *failure) {
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families >> family & 1 && check_size((enum shape_id)id, shape_get(shape, (enum shape_id)id),
                                                                 most_of((enum shape_id)id, family), failure) != ATT_OK)
            return failure->status;
    return ATT_OK;
}
