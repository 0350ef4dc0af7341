/* kernels: the kernels of a session, each with its users. Those that have been idle longest are unloaded first. */
#include "session.h"

#include <stdlib.h>

/* --- users, with the session's lock held ------------------------------------------------------------------------ */

void kernel_use(att_kernel *kernel) {
    kernel->session->idle -= kernel->users == 0;
    kernel->users++;
}

static void leave(att_kernel *kernel) {
    if (kernel->users == 0 || --kernel->users > 0) /* released more often than found: ignore */
        return;
    kernel->session->idle++;
    kernel->last_used = ++kernel->session->clock;
}

/* A kernel that is unloaded no longer uses those that launches of some sizes use in its place. */
static void leave_others(att_kernel *kernel) {
    for (int size_class = 0; kernel->by_sizes && size_class < SIZE_CLASSES; size_class++) {
        att_kernel *other = atomic_load(&kernel->by_sizes->kernel[size_class]);
        if (other && other != kernel)
            leave(other);
    }
}

/* Takes the kernel that has been idle longest out of the session. */
static att_kernel *take_idle(att_session *session) {
    att_kernel **oldest = NULL;
    for (att_kernel **link = &session->kernels; *link; link = &(*link)->next)
        if ((*link)->users == 0 && (!oldest || (*link)->last_used < (*oldest)->last_used))
            oldest = link;
    att_kernel *kernel = *oldest;
    *oldest = kernel->next;
    session->idle--;
    leave_others(kernel);
    names_forget(&session->variants, kernel);
    names_forget(&session->asked, kernel);
    return kernel;
}

/* Removes one user. If too many kernels are idle, unloads a quarter of them at once, since unloading waits for the
   device. */
void kernel_release(att_kernel *kernel) {
    att_session *session = kernel->session;
    att_kernel *gone = NULL;
    struct failure failure = {0};
    pthread_mutex_lock(&session->lock);
    leave(kernel);
    for (bool many = session->idle > KERNELS_KEPT; many && session->idle > KERNELS_KEPT - KERNELS_KEPT / 4;) {
        att_kernel *taken = take_idle(session);
        taken->next = gone;
        gone = taken;
    }
    pthread_mutex_unlock(&session->lock);
    if (gone) /* they may still be running; nobody reads a failure here */
        session->type->synchronize(session->backend, &failure);
    failure_clear(&failure);
    for (att_kernel *next; gone; gone = next) {
        next = gone->next;
        kernel_free(gone);
    }
}

/* --- kernels of variants ----------------------------------------------------------------------------------------- */

static att_kernel *add_kernel(att_session *session, const struct variant *variant, unsigned kind,
                              const struct request *request, const struct text *name) {
    att_kernel *kernel = calloc(1, sizeof *kernel);
    struct by_sizes *by_sizes = request ? calloc(1, sizeof *by_sizes) : NULL;
    if (!kernel || (request && !by_sizes) || !names_add(&session->variants, name, kernel)) {
        free(by_sizes);
        free(kernel);
        return NULL;
    }
    if (request)
        *by_sizes = (struct by_sizes){.found = kernel, .request = *request};
    kernel->by_sizes = by_sizes;
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

att_kernel *kernel_of_variant(att_session *session, const struct variant *variant, unsigned kind,
                              const struct request *request) {
    struct text canonical = {0};
    att_kernel *kernel = NULL;
    text_print(&canonical, "%u\n", kind);
    if (request) { /* what its other kernels depend on besides the variant */
        const int alignment = request->hints.alignment;
        text_print(&canonical, "%d %d %d\n", request->knobs.target, alignment < BOX_ALIGNMENT ? alignment : 0,
                   request->hints.shape.len_q >= 0);
    }
    variant_print(variant, &canonical);
    if (!canonical.failed) {
        pthread_mutex_lock(&session->lock);
        kernel = names_find(&session->variants, &canonical);
        if (!kernel)
            kernel = add_kernel(session, variant, kind, request, &canonical);
        if (kernel)
            kernel_use(kernel);
        pthread_mutex_unlock(&session->lock);
    }
    text_free(&canonical);
    return kernel;
}
