/* From a problem's text to a kernel: which variant answers it, and is it here already? */
#include "bundle.h"
#include "session.h"
#include "sized.h"

#include <stdlib.h>
#include <string.h>

/* --- users of kernels ------------------------------------------------------------------------------------------ */

/* All with the session's lock held. */

static void use(att_session *session, att_kernel *kernel) {
    session->idle -= kernel->users == 0;
    kernel->users++;
}

static void leave(att_session *session, att_kernel *kernel) {
    if (kernel->users == 0 || --kernel->users > 0) /* released more often than found: nothing to leave */
        return;
    session->idle++;
    kernel->last_used = ++session->clock;
}

/* Take the kernel that was idle longest out of the session. */
static att_kernel *take_idle(att_session *session) {
    att_kernel **oldest = NULL;
    for (att_kernel **link = &session->kernels; *link; link = &(*link)->next)
        if ((*link)->users == 0 && (!oldest || (*link)->last_used < (*oldest)->last_used))
            oldest = link;
    att_kernel *kernel = *oldest;
    *oldest = kernel->next;
    session->idle--;
    names_forget(&session->variants, kernel);
    names_forget(&session->asked, kernel);
    return kernel;
}

/* One user leaves. When too many kernels are idle a quarter of them goes: unloading waits for the device. */
static void release(att_session *session, att_kernel *kernel) {
    att_kernel *gone = NULL;
    struct failure failure = {0};
    pthread_mutex_lock(&session->lock);
    leave(session, kernel);
    for (bool many = session->idle > KERNELS_KEPT; many && session->idle > KERNELS_KEPT - KERNELS_KEPT / 4;) {
        att_kernel *taken = take_idle(session);
        taken->next = gone;
        gone = taken;
    }
    pthread_mutex_unlock(&session->lock);
    if (gone) /* they may still be running; what failed there has no reader here */
        session->type->synchronize(session->backend, &failure);
    failure_clear(&failure);
    for (att_kernel *next; gone; gone = next) {
        next = gone->next;
        kernel_free(gone);
    }
}

/* --- kernels of variants --------------------------------------------------------------------------------------- */

static att_kernel *add_kernel(att_session *session, const struct variant *variant, enum kernel_kind kind,
                              const struct text *name) {
    att_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel || !names_add(&session->variants, name, kernel)) {
        free(kernel);
        return NULL;
    }
    kernel->session = session;
    kernel->variant = *variant;
    kernel->kind = kind;
    kernel->info =
        (struct att_kernel_info){.registers = -1, .spill_bytes = -1, .instructions = -1, .compiler_seconds = -1};
    pthread_mutex_init(&kernel->lock, NULL);
    kernel->next = session->kernels;
    session->kernels = kernel;
    session->idle++;
    return kernel;
}

/* The kernel of a variant, new or known, with one more user. Null: out of memory. */
static att_kernel *intern(att_session *session, const struct variant *variant, enum kernel_kind kind) {
    struct text canonical = {0};
    att_kernel *kernel = NULL;
    text_print(&canonical, "%d\n", kind);
    variant_print(variant, &canonical);
    if (!canonical.failed) {
        pthread_mutex_lock(&session->lock);
        kernel = names_find(&session->variants, &canonical);
        if (!kernel)
            kernel = add_kernel(session, variant, kind, &canonical);
        if (kernel)
            use(session, kernel);
        pthread_mutex_unlock(&session->lock);
    }
    text_free(&canonical);
    return kernel;
}

/* --- finding --------------------------------------------------------------------------------------------------- */

/* The best candidate that compiles, with one more user; without `compile` ATT_NOT_PREPARED where a compiler would have to make it. Without bundles an open schedule is answered by the variant itself. */
static enum att_status find_best(att_session *session, const char *problem, const char *schedule, bool compile,
                                 att_kernel **result, struct failure *failure) {
    struct request request;
    struct choice choice = {0};
    if (choose_read(session, problem, schedule, &request, failure) != ATT_OK)
        return failure->status;
    while (choose_next(session, &request, &choice, NULL)) {
        bool any = request.any_schedule && session->bundles;
        att_kernel *kernel = intern(session, &choice.variant, any ? KERNEL_OF_ANY_SCHEDULE : KERNEL_OF_VARIANT);
        if (!kernel)
            return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while finding a kernel");
        failure_clear(failure); /* of the candidate before */
        if (kernel_build(kernel, compile, failure) == ATT_OK) {
            *result = kernel;
            return ATT_OK;
        }
        release(session, kernel);
        if (failure->status != ATT_COMPILE_FAILED || !request.any_schedule)
            return failure->status;
        session_log(session, ATT_LOG_WARNING, "%s is passed over: %s", choice.variant.name,
                    text_string(&failure->text));
    }
    if (failure->status == ATT_OK)
        failure_set(failure, ATT_UNSUPPORTED, "no kernel answers this problem: %s", choice.reason);
    return failure->status;
}

/* In the session's thread, while a quick kernel answers. */
static void replace_quick(att_session *session, const char *problem, const struct text *asked) {
    struct failure failure = {0};
    att_kernel *kernel = NULL;
    if (find_best(session, problem, NULL, true, &kernel, &failure) == ATT_OK) {
        pthread_mutex_lock(&session->lock);
        names_set(&session->asked, asked, kernel);
        pthread_mutex_unlock(&session->lock);
        session_log(session, ATT_LOG_INFO, "%s takes the place of the quick kernel", kernel->variant.name);
        release(session, kernel);
    } else {
        session_log(session, ATT_LOG_WARNING, "the quick kernel stays: %s", text_string(&failure.text));
    }
    failure_clear(&failure);
}

/* The best kernel if no compiler is needed for it; else a quick one, and the best one is compiled in the background; where that is
   not possible the best one after all. */
static enum att_status find_quick(att_session *session, const char *problem, const struct text *asked,
                                  att_kernel **result, struct failure *failure) {
    enum att_status status = find_best(session, problem, NULL, false, result, failure);
    if (status != ATT_NOT_PREPARED)
        return status;
    failure_clear(failure);
    status = find_best(session, problem, QUICK_SCHEDULE, true, result, failure);
    if (status == ATT_OK && quick_start(session, replace_quick, problem, asked))
        return ATT_OK;
    if (status == ATT_OK)
        release(session, *result);
    else if (status != ATT_UNSUPPORTED && status != ATT_INVALID_TEXT && status != ATT_COMPILE_FAILED)
        return status; /* the best one would fare no better */
    failure_clear(failure);
    return find_best(session, problem, NULL, true, result, failure);
}

static enum att_status find(att_session *session, const char *problem, const char *schedule, att_kernel **result,
                            struct failure *failure) {
    struct text asked = {0};
    if (schedule && !*schedule)
        schedule = NULL; /* an empty schedule is none */
    text_append(&asked, problem, problem ? strlen(problem) : 0);
    text_append(&asked, schedule ? "\n=" : "\n", schedule ? 2 : 1);
    text_append(&asked, schedule, schedule ? strlen(schedule) : 0);
    pthread_mutex_lock(&session->lock);
    att_kernel *kernel = problem && !asked.failed ? names_find(&session->asked, &asked) : NULL;
    if (kernel)
        use(session, kernel);
    pthread_mutex_unlock(&session->lock);
    enum att_status status = ATT_OK;
    if (!kernel) {
        bool quick = session->quick.wanted && problem && !schedule && !asked.failed;
        status = quick ? find_quick(session, problem, &asked, &kernel, failure)
                       : find_best(session, problem, schedule, true, &kernel, failure);
        pthread_mutex_lock(&session->lock);
        if (status == ATT_OK && !asked.failed && !names_find(&session->asked, &asked))
            names_add(&session->asked, &asked, kernel); /* out of memory: the next call searches again */
        pthread_mutex_unlock(&session->lock);
    }
    text_free(&asked);
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

void att_release(att_kernel *kernel) {
    if (kernel && session_enter(kernel->session) == ATT_OK)
        release(kernel->session, kernel);
}

/* --- asking about kernels --------------------------------------------------------------------------------------- */

enum att_status att_prepare(att_kernel *kernel) {
    struct failure failure = {0};
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (!atomic_load(&kernel->prepared) && kernel_prepare(kernel, &failure) != ATT_OK)
        return session_fail(kernel->session, &failure);
    return ATT_OK;
}

const char *att_kernel_name(const att_kernel *kernel) { return kernel ? kernel->variant.name : ""; }

const char *att_kernel_source(const att_kernel *kernel) { return kernel ? text_string(&kernel->source) : ""; }

enum att_status att_kernel_describe(const att_kernel *kernel, struct att_kernel_info *info) {
    struct failure failure = {0};
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (!info)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "info is null, expected where to put the result");
    else if (sized_write(SIZED_KERNEL_INFO, "info", &kernel->info, info, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(kernel->session, &failure);
}
