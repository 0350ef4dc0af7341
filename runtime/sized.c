#include "sized.h"

#include <string.h>

/* Each struct's size now and its size in 0.1, the smallest possible one. */
static const struct {
    const char *name;
    size_t now, first;
} structs[] = {
#define STRUCT(name, last)                                                                                             \
    { #name, sizeof(struct name), offsetof(struct name, last) + sizeof((struct name *)0)->last }
    [SIZED_OPTIONS] = STRUCT(att_options, log_context),      [SIZED_ARGS] = STRUCT(att_args, attention.params),
    [SIZED_KERNEL_INFO] = STRUCT(att_kernel_info, from),     [SIZED_SESSION_INFO] = STRUCT(att_session_info, cache_dir),
    [SIZED_COUNTERS] = STRUCT(att_counters, shared_written), [SIZED_SHARED_PREFIX] = STRUCT(att_shared_prefix, pages),
#undef STRUCT
};

static enum att_status check_size(enum sized which, const char *name, size_t size, struct failure *failure) {
    if (size >= structs[which].first)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT,
                       "%s.size is %zu, expected sizeof(struct %s), which is %zu; write {.size = sizeof %s}", name,
                       size, structs[which].name, structs[which].now, name);
}

enum att_status sized_read(enum sized which, const char *name, const void *callers, void *known,
                           struct failure *failure) {
    size_t size = *(const size_t *)callers, now = structs[which].now;
    if (check_size(which, name, size, failure) != ATT_OK)
        return failure->status;
    for (size_t i = now; i < size; i++)
        if (((const char *)callers)[i])
            return failure_set(
                failure, ATT_INVALID_ARGUMENT,
                "%s.size is %zu, and bytes after the %zu that attile %s knows are set; use a newer attile, "
                "or its attile.h",
                name, size, now, att_version());
    memset(known, 0, now);
    memcpy(known, callers, size < now ? size : now);
    *(size_t *)known = now;
    return ATT_OK;
}

enum att_status sized_write(enum sized which, const char *name, const void *known, void *callers,
                            struct failure *failure) {
    size_t size = *(const size_t *)callers, now = structs[which].now;
    if (check_size(which, name, size, failure) != ATT_OK)
        return failure->status;
    memset(callers, 0, size);
    memcpy(callers, known, size < now ? size : now);
    *(size_t *)callers = size;
    return ATT_OK;
}
