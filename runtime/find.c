/* From a problem's text to a kernel: which variant answers it, and is it here already? */
#include "session.h"

#include <stdlib.h>
#include <string.h>

enum { SM_80 = 80, SM_90 = 90 };

/* --- choosing -------------------------------------------------------------------------------------------------- */

static bool read_knobs(const char *name, const char *text, unsigned groups, struct knobs *knobs,
                       struct failure *failure) {
    struct input input = {name, text, strlen(text)};
    struct diag diag = {0};
    bool good = knobs_parse(&input, groups, knobs, &diag);
    if (!good)
        failure_take(failure, ATT_INVALID_TEXT, &diag);
    diag_free(&diag);
    return good;
}

/* Complete with a target that the caller may not have asked for: such a wish is dropped, not refused, where the
   template has no use for it. */
static bool complete(const struct template_set *set, struct knobs knobs, int target, struct variant *variant) {
    knobs.target = target;
    variant_complete(set, &knobs, false, variant);
    if (!(variant->used >> KNOB_target & 1))
        knobs.target = target_any;
    return variant_complete(set, &knobs, true, variant);
}

static const char *missing_from_gpu(const att_session *session, int target) {
    int arch = session->info.arch_number;
    if (session->type == &backend_host)
        return NULL;
    if (target == target_sm_80 && arch < SM_80)
        return "compute capability 8.0 or later";
    return target == target_sm_90a && arch != SM_90 ? "compute capability 9.0" : NULL;
}

/* The instruction set that suits most kernels first, unless the caller named one. */
static bool choose(const att_session *session, const struct knobs *knobs, struct variant *variant) {
    static const int targets[] = {target_sm_80, target_any, target_sm_90a};
    if (knobs->target != AUTO)
        return variant_complete(session->templates, knobs, true, variant);
    bool first = true;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct variant tried;
        if (missing_from_gpu(session, targets[i]))
            continue;
        bool feasible = complete(session->templates, *knobs, targets[i], &tried);
        if (feasible || first)
            *variant = tried; /* when none is feasible, the first reason is told */
        if (feasible)
            return true;
        first = false;
    }
    return false;
}

enum att_status find_variant(const att_session *session, const char *problem, const char *schedule,
                             struct variant *variant, struct failure *failure) {
    struct knobs knobs = knobs_default();
    knobs.target = AUTO; /* to see whether the caller names one */
    if (!problem)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "problem is null, expected a text such as "
                           "\"family=attention_forward dtype=bf16 head_dim=64\"");
    if (!read_knobs("<problem>", problem, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, &knobs, failure) ||
        !read_knobs("<schedule>", schedule ? schedule : "", 1u << KNOB_GROUP_SCHEDULE, &knobs, failure))
        return failure->status;
    if (knobs.family == AUTO) {
        failure_set(failure, ATT_INVALID_TEXT, "<problem>: error: no family is named; expected family= with one of");
        for (int i = 0; knob_table[KNOB_family].words[i]; i++)
            failure_add(failure, "%s %s", i ? "," : "", knob_table[KNOB_family].words[i]);
        return failure->status;
    }
    const char *missing = missing_from_gpu(session, knobs.target);
    if (missing)
        return failure_set(failure, ATT_UNSUPPORTED, "target %s needs a GPU of %s; %s is %s",
                           knob_word_name(KNOB_target, knobs.target), missing, session->info.device_name,
                           session->info.arch);
    if (!choose(session, &knobs, variant))
        return failure_set(failure, ATT_UNSUPPORTED, "no kernel answers this problem: %s", variant->reason);
    return ATT_OK;
}

/* --- remembering ----------------------------------------------------------------------------------------------- */

static unsigned bucket_of(const char *text, size_t size) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return (unsigned)(hash >> 32) % KERNEL_BUCKETS;
}

static att_kernel *recall(const att_session *session, const struct text *name) {
    const struct kernel_name *at = session->names[bucket_of(text_string(name), name->size)];
    while (at && (at->size != name->size || memcmp(at->text, text_string(name), name->size) != 0))
        at = at->next;
    return at ? at->kernel : NULL;
}

static bool remember(att_session *session, const struct text *name, att_kernel *kernel) {
    struct kernel_name *entry = malloc(sizeof *entry + name->size);
    if (!entry)
        return false;
    struct kernel_name **bucket = &session->names[bucket_of(text_string(name), name->size)];
    *entry = (struct kernel_name){.next = *bucket, .kernel = kernel, .size = name->size};
    memcpy(entry->text, text_string(name), name->size);
    *bucket = entry;
    return true;
}

static att_kernel *add_kernel(att_session *session, const struct variant *variant, const struct text *name) {
    att_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel || !remember(session, name, kernel)) {
        free(kernel);
        return NULL;
    }
    kernel->session = session;
    kernel->variant = *variant;
    kernel->info = (struct att_kernel_info){.registers = -1, .spill_bytes = -1};
    pthread_mutex_init(&kernel->lock, NULL);
    kernel->next = session->kernels;
    session->kernels = kernel;
    return kernel;
}

/* The kernel of a variant, new or known, now also by the name it was asked for under. Null: out of memory. */
static att_kernel *intern(att_session *session, const struct variant *variant, bool any_schedule,
                          const struct text *asked) {
    struct text canonical = {0};
    /* a bundle may answer differently when the schedule is left open, so these are two kernels */
    text_print(&canonical, session->bundles && any_schedule ? "any schedule\n" : "\n");
    variant_print(variant, &canonical);
    att_kernel *kernel = NULL;
    if (!canonical.failed) {
        pthread_mutex_lock(&session->lock);
        kernel = recall(session, &canonical);
        if (!kernel)
            kernel = add_kernel(session, variant, &canonical);
        if (kernel && !recall(session, asked))
            remember(session, asked, kernel); /* when memory is short the longer way serves as well */
        pthread_mutex_unlock(&session->lock);
    }
    text_free(&canonical);
    return kernel;
}

static enum att_status find(att_session *session, const char *problem, const char *schedule, att_kernel **result,
                            struct failure *failure) {
    struct text asked = {0};
    if (schedule && !*schedule)
        schedule = NULL; /* nothing said is nothing asked for */
    text_print(&asked, "%s\n%s%s", problem ? problem : "", schedule ? "=" : "", schedule ? schedule : "");
    pthread_mutex_lock(&session->lock);
    att_kernel *kernel = problem && !asked.failed ? recall(session, &asked) : NULL;
    pthread_mutex_unlock(&session->lock);
    enum att_status status = ATT_OK;
    if (!kernel) {
        struct variant variant;
        status = find_variant(session, problem, schedule, &variant, failure);
        if (status == ATT_OK && !(kernel = intern(session, &variant, !schedule, &asked)))
            status = failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while finding a kernel");
    }
    text_free(&asked);
    if (status == ATT_OK)
        status = kernel_build(kernel, !schedule, failure);
    if (status == ATT_OK)
        *result = kernel;
    return status;
}

enum att_status att_find(att_session *session, const char *problem, const char *schedule, att_kernel **kernel) {
    struct failure failure = {0};
    if (kernel)
        *kernel = NULL;
    enum att_status status = session_enter(session);
    if (status != ATT_OK)
        return status;
    if (!kernel)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "kernel is null, expected where to put the result");
    else if (find(session, problem, schedule, kernel, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(session, &failure);
}

/* --- asking about kernels --------------------------------------------------------------------------------------- */

enum att_status att_prepare(att_kernel *kernel) {
    struct failure failure = {0};
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK || atomic_load(&kernel->prepared))
        return status;
    status = kernel_prepare(kernel, &failure);
    return status == ATT_OK ? ATT_OK : session_fail(kernel->session, &failure);
}

const char *att_kernel_name(const att_kernel *kernel) { return kernel ? kernel->variant.name : ""; }

const char *att_kernel_source(const att_kernel *kernel) { return kernel ? text_string(&kernel->source) : ""; }

enum att_status att_kernel_describe(const att_kernel *kernel, struct att_kernel_info *info) {
    if (!kernel || !info)
        return ATT_INVALID_ARGUMENT;
    *info = kernel->info;
    return ATT_OK;
}
