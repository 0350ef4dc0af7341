#include "by_sizes.h"
#include "bundle.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* --- measured sizes ------------------------------------------------------------------------------------------------ */

/* Null: out of memory. */
static const struct measured_sizes *measured_sizes(struct by_sizes *by_sizes) {
    struct measured_sizes *there = atomic_load_explicit(&by_sizes->measured, memory_order_acquire);
    if (there)
        return there;
    struct measured_sizes *sizes = malloc(sizeof *sizes);
    if (!sizes)
        return NULL;
    choose_measured_sizes(by_sizes->found->session, &by_sizes->request, &by_sizes->found->variant, sizes);
    if (atomic_compare_exchange_strong(&by_sizes->measured, &there, sizes))
        return sizes;
    free(sizes); /* another thread stored the same ones first */
    return there;
}

/* The class of launches that belong to no other. */
static int measured_class(struct by_sizes *by_sizes, const struct shape *shape, bool room) {
    enum { LAST_BYTE = 0xff };
    _Static_assert(MEASURED_SIZES + 1 <= LAST_BYTE, "the last byte holds every number + 2");
    const int64_t sizes[] = {shape->batch, shape->heads, shape->kv_heads, shape->len_q, shape->len_kv, room};
    const struct measured_sizes *measured = measured_sizes(by_sizes);
    if (!measured || measured->count == 0)
        return -1;
    const uint64_t hash = XXH3_64bits(sizes, sizeof sizes);
    _Atomic uint64_t *place = &by_sizes->remembered[(hash >> 8) % REMEMBERED];
    const uint64_t there = atomic_load_explicit(place, memory_order_relaxed);
    int number = (int)(there & LAST_BYTE) - 2;
    if (!there || (there ^ hash) > LAST_BYTE) {
        number = choose_measured_size(&by_sizes->found->variant, measured, shape, room);
        atomic_store_explicit(place, (hash & ~(uint64_t)LAST_BYTE) | (uint64_t)(number + 2), memory_order_relaxed);
    }
    return number < 0 ? -1 : RULE_CLASSES + number;
}

/* --- one class ----------------------------------------------------------------------------------------------------- */

/* Only kernels from bundles may replace a bundle's kernel: a program that ships one does not expect a compile. */
static bool may_build(const att_kernel *found, const struct variant *variant) {
    const att_session *session = found->session;
    return strcmp(found->info.from, "bundle") != 0 ||
           bundle_find(session->bundles, variant, session->info.built_for, false);
}

static bool choose(struct by_sizes *by_sizes, int size_class, struct choice *choice) {
    att_session *session = by_sizes->found->session;
    if (size_class < RULE_CLASSES)
        return choose_for_class(session, &by_sizes->request, size_class, choice);
    const struct measured_sizes *sizes = measured_sizes(by_sizes);
    const int number = size_class - RULE_CLASSES;
    return sizes && number < sizes->count && sizes->size[number].same == number &&
           choose_for_sizes(session, &by_sizes->request, &by_sizes->found->variant, &sizes->size[number].shape, choice);
}

/* Returns the kernel of a class, with one more user; the found one if there is no other. */
static enum att_status build(struct by_sizes *by_sizes, int size_class, att_kernel **kernel, struct failure *failure) {
    att_kernel *found = by_sizes->found;
    att_session *session = found->session;
    struct choice choice = {.variant = found->variant};
    *kernel = found;
    if (!choose(by_sizes, size_class, &choice) || strcmp(choice.variant.name, found->variant.name) == 0 ||
        !may_build(found, &choice.variant))
        return ATT_OK;
    att_kernel *own = kernel_of_variant(session, &choice.variant, KERNEL_OF_VARIANT, NULL);
    if (!own)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while finding a kernel");
    if (kernel_build(own, true, failure) == ATT_OK) {
        *kernel = own;
        return ATT_OK;
    }
    kernel_release(own);
    if (failure->status == ATT_OUT_OF_MEMORY)
        return failure->status;
    session_log(session, ATT_LOG_WARNING, "%s answers in place of %s: %s", found->variant.name, choice.variant.name,
                text_string(&failure->text));
    failure_clear(failure);
    return ATT_OK;
}

int by_sizes_class(struct by_sizes *by_sizes, const struct shape *shape, bool room) {
    const int size_class = choose_class(&by_sizes->request, &by_sizes->found->variant, shape, room);
    return size_class < 0 ? measured_class(by_sizes, shape, room) : size_class;
}

enum att_status by_sizes_take(struct by_sizes *by_sizes, int size_class, att_kernel **taken, struct failure *failure) {
    *taken = NULL;
    if (size_class < 0)
        return ATT_OK;
    _Atomic(att_kernel *) *place = &by_sizes->kernel[size_class];
    att_kernel *kernel, *there = atomic_load_explicit(place, memory_order_acquire);
    if (!there) {
        if (build(by_sizes, size_class, &kernel, failure) != ATT_OK)
            return failure->status;
        if (atomic_compare_exchange_strong(place, &there, kernel))
            there = kernel;
        else if (kernel != by_sizes->found)
            kernel_release(kernel); /* another thread stored the same one first */
    }
    *taken = there == by_sizes->found ? NULL : there;
    return ATT_OK;
}

bool by_sizes_is_ready(const struct by_sizes *by_sizes, int size_class) {
    return size_class < 0 || atomic_load_explicit(&by_sizes->kernel[size_class], memory_order_acquire);
}

/* --- all classes --------------------------------------------------------------------------------------------------- */

struct all {
    struct by_sizes *by_sizes;
    atomic_int next; /* class */
    pthread_mutex_t lock;
    struct failure failure; /* the first one, guarded by the lock */
};

static void *prepare_some(void *context) {
    struct all *all = context;
    for (int size_class; (size_class = atomic_fetch_add(&all->next, 1)) < SIZE_CLASSES;) {
        struct failure failure = {0};
        att_kernel *kernel = NULL;
        if (by_sizes_take(all->by_sizes, size_class, &kernel, &failure) == ATT_OK && kernel)
            kernel_prepare(kernel, &failure);
        pthread_mutex_lock(&all->lock);
        if (all->failure.status == ATT_OK)
            all->failure = failure;
        else
            failure_clear(&failure);
        pthread_mutex_unlock(&all->lock);
    }
    return NULL;
}

static bool all_ready(const struct by_sizes *by_sizes) {
    for (int size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        const att_kernel *kernel = atomic_load(&by_sizes->kernel[size_class]);
        if (!kernel || (kernel != by_sizes->found && !atomic_load(&kernel->prepared)))
            return false;
    }
    return true;
}

enum att_status by_sizes_prepare(struct by_sizes *by_sizes, struct failure *failure) {
    struct all all = {.by_sizes = by_sizes, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[SIZE_CLASSES];
    int threads = 0;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (all_ready(by_sizes))
        return ATT_OK;
    while (threads < SIZE_CLASSES - 1 && threads < processors - 1 &&
           pthread_create(&thread[threads], NULL, prepare_some, &all) == 0)
        threads++;
    prepare_some(&all); /* this thread, too */
    while (threads > 0)
        pthread_join(thread[--threads], NULL);
    *failure = all.failure;
    return failure->status;
}
