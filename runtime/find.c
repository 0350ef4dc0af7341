/* From a problem's text to a kernel: which variant solves it, and does it exist already? */
#include "bundle.h"
#include "session.h"
#include "sized.h"

#include <stdlib.h>
#include <string.h>

/* --- finding --------------------------------------------------------------------------------------------------- */

/* Finds the best candidate that compiles, with one more user; without `compile`, returns ATT_NOT_PREPARED if a compiler
   would have to make it. Without bundles, a request with an open schedule gets exactly this variant. */
static enum att_status find_best(att_session *session, const char *problem, const char *schedule, bool compile,
                                 att_kernel **result, struct failure *failure) {
    struct request request;
    struct choice choice = {0};
    if (choose_read(session, problem, schedule, &request, failure) != ATT_OK)
        return failure->status;
    while (choose_next(session, &request, &choice, NULL)) {
        const bool open = choose_has_classes(&request, &choice);
        const unsigned kind =
            (request.any_schedule && session->bundles ? KERNEL_OF_ANY_SCHEDULE : 0) | (open ? KERNEL_OF_ANY_SIZES : 0);
        att_kernel *kernel = kernel_of_variant(session, &choice.variant, kind, open ? &request : NULL);
        if (!kernel)
            return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while finding a kernel");
        failure_clear(failure); /* that of the previous candidate */
        if (kernel_build(kernel, compile, failure) == ATT_OK) {
            *result = kernel;
            return ATT_OK;
        }
        kernel_release(kernel);
        if (failure->status != ATT_COMPILE_FAILED || !request.any_schedule)
            return failure->status;
        session_log(session, ATT_LOG_WARNING, "%s is passed over: %s", choice.variant.name,
                    text_string(&failure->text));
    }
    if (failure->status == ATT_OK)
        failure_set(failure, ATT_UNSUPPORTED, "no kernel answers this problem: %s", choice.reason);
    return failure->status;
}

/* Runs in the session's thread, while a quick kernel serves the problem. */
static void replace_quick(att_session *session, const char *problem, const struct text *asked) {
    struct failure failure = {0};
    att_kernel *kernel = NULL;
    if (find_best(session, problem, NULL, true, &kernel, &failure) == ATT_OK) {
        if (kernel->by_sizes) /* so that no launch waits for a compile */
            by_sizes_prepare(kernel->by_sizes, &failure);
        pthread_mutex_lock(&session->lock);
        names_set(&session->asked, asked, kernel);
        pthread_mutex_unlock(&session->lock);
        session_log(session, ATT_LOG_INFO, "%s takes the place of the quick kernel", kernel->variant.name);
        kernel_release(kernel);
    } else {
        session_log(session, ATT_LOG_WARNING, "the quick kernel stays: %s", text_string(&failure.text));
    }
    failure_clear(&failure);
}

/* Returns the best kernel if it needs no compiler. Otherwise returns a quick one, and the best one is compiled in the
   background; if that is not possible, returns the best one after all. */
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
        kernel_release(*result);
    else if (status != ATT_UNSUPPORTED && status != ATT_INVALID_TEXT && status != ATT_COMPILE_FAILED)
        return status; /* the best one would fail as well */
    failure_clear(failure);
    return find_best(session, problem, NULL, true, result, failure);
}

static enum att_status find(att_session *session, const char *problem, const char *schedule, att_kernel **result,
                            struct failure *failure) {
    struct text asked = {0};
    if (schedule && !*schedule)
        schedule = NULL; /* an empty schedule means none */
    text_append(&asked, problem, problem ? strlen(problem) : 0);
    text_append(&asked, schedule ? "\n=" : "\n", schedule ? 2 : 1);
    text_append(&asked, schedule, schedule ? strlen(schedule) : 0);
    pthread_mutex_lock(&session->lock);
    att_kernel *kernel = problem && !asked.failed ? names_find(&session->asked, &asked) : NULL;
    if (kernel)
        kernel_use(kernel);
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
        kernel_release(kernel);
}

/* --- asking about kernels --------------------------------------------------------------------------------------- */

enum att_status att_prepare(att_kernel *kernel) {
    struct failure failure = {0};
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if ((!atomic_load(&kernel->prepared) && kernel_prepare(kernel, &failure) != ATT_OK) ||
        (kernel->by_sizes && by_sizes_prepare(kernel->by_sizes, &failure) != ATT_OK))
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
