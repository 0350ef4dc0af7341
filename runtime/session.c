/* Opening and closing sessions, and each thread's last message. */
#include "session.h"
#include "bundle.h"
#include "process.h"
#include "sized.h"
#include "template_folder.h"

#include <stdlib.h>
#include <string.h>

/* --- messages -------------------------------------------------------------------------------------------------- */

struct message {
    struct message *next;
    uint64_t thread;
    struct text text;
};

/* Numbers threads by counting, since the system reuses its thread ids after a thread has ended. */
static uint64_t this_thread(void) {
    static atomic_uint_fast64_t threads;
    static _Thread_local uint64_t thread;
    if (!thread)
        thread = atomic_fetch_add(&threads, 1) + 1;
    return thread;
}

static struct message *find_message(const att_session *session) {
    struct message *message = session->messages;
    while (message && message->thread != this_thread())
        message = message->next;
    return message;
}

enum att_status session_fail(att_session *session, struct failure *failure) {
    enum att_status status = failure->status;
    pthread_mutex_lock(&session->lock);
    struct message *message = find_message(session);
    if (!message && (message = calloc(1, sizeof *message))) {
        message->thread = this_thread();
        message->next = session->messages;
        session->messages = message;
    }
    if (message) {
        text_free(&message->text);
        message->text = failure->text;
        failure->text = (struct text){0};
    }
    pthread_mutex_unlock(&session->lock);
    failure_clear(failure);
    return status;
}

const char *att_message(const att_session *session) {
    if (!session)
        return "";
    if (session->process != process_number()) /* a thread that this process does not have may hold the lock */
        return "the process forked after att_open; open a new session in the child";
    pthread_mutex_t *lock = &((att_session *)(uintptr_t)session)->lock;
    pthread_mutex_lock(lock);
    const struct message *message = find_message(session);
    const char *text = !message ? "" : message->text.size ? text_string(&message->text) : "out of memory";
    pthread_mutex_unlock(lock);
    return text;
}

enum att_status session_enter(att_session *session) {
    if (!session)
        return ATT_INVALID_ARGUMENT;
    if (session->process != process_number())
        return ATT_FORKED; /* att_message explains it */
    if (session->open)
        return ATT_OK;
    struct failure failure = {0};
    failure_set(&failure, ATT_INVALID_ARGUMENT, "session: att_open failed for it; it can only be closed");
    return session_fail(session, &failure);
}

/* --- opening --------------------------------------------------------------------------------------------------- */

static enum att_status open_backend(att_session *session, const struct att_options *options, const char *compile_for,
                                    struct failure *failure) {
    const struct backend_options chosen = {options->ordinal, options->host_mode, options->host_seed, compile_for};
    if (options->device != ATT_DEVICE_HOST) {
        session->type = &backend_cuda;
        enum att_status status = backend_cuda.open(&chosen, &session->backend, failure);
        if (status != ATT_NO_DEVICE || options->device == ATT_DEVICE_CUDA)
            return status;
        session_log(session, ATT_LOG_INFO, "no GPU, so kernels run on this CPU: %s", text_string(&failure->text));
        failure_clear(failure);
    }
    session->type = &backend_host;
    return backend_host.open(&chosen, &session->backend, failure);
}

static enum att_status open_templates(att_session *session, const char *folder, struct failure *failure) {
    struct diag diag = {0};
    if (folder && !(session->template_folder = template_folder_open(folder)))
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while opening templates");
    session->templates = template_folder_parse(session->template_folder, &diag);
    if (!session->templates)
        return failure_take(failure, ATT_INVALID_TEXT, &diag);
    diag_free(&diag);
    return ATT_OK;
}

static enum att_status copy_bundles(att_session *session, const struct att_bundle *const *bundles,
                                    struct failure *failure) {
    int count = 0;
    for (; bundles && bundles[count]; count++)
        if (bundle_check(bundles[count], count, failure) != ATT_OK)
            return failure->status;
    const struct att_bundle **copy = count ? calloc((size_t)count + 1, sizeof *copy) : NULL;
    if (count && !copy)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for a list of %d bundles", count);
    for (int i = 0; i < count; i++)
        copy[i] = bundles[i];
    session->bundles = copy;
    return ATT_OK;
}

/* A bundle for other devices is not an error, but the user must be able to find out why kernels are compiled
   nevertheless. */
static void tell_of_idle_bundles(const att_session *session) {
    for (int i = 0; session->bundles && session->bundles[i]; i++) {
        struct text built = {0};
        if (!bundle_serves(session->bundles[i], session->info.built_for, &built))
            session_log(session, ATT_LOG_WARNING, "bundles[%d]: none of its kernels is for %s; they are for %s", i,
                        session->info.built_for, text_string(&built));
        text_free(&built);
    }
}

static enum att_status open_parts(att_session *session, const struct att_options *options, const char *compile_for,
                                  struct failure *failure) {
    if ((unsigned)options->device > ATT_DEVICE_HOST)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "options.device is %d, expected an enum att_device",
                           (int)options->device);
    if ((unsigned)options->host_mode > ATT_HOST_RACE)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "options.host_mode is %d, expected an enum att_host_mode",
                           (int)options->host_mode);
    enum att_status status = copy_bundles(session, options->bundles, failure);
    if (status == ATT_OK)
        status = open_templates(session, options->template_dir, failure);
    const char *tuned = options->tuned_table ? options->tuned_table : secure_getenv("ATTILE_TUNED");
    if (status == ATT_OK)
        status = tables_open(&session->tables, tuned && *tuned ? tuned : NULL, failure);
    if (status == ATT_OK)
        status = open_backend(session, options, compile_for, failure);
    if (status != ATT_OK)
        return status;
    session->type->describe(session->backend, &session->info);
    session->modelled = model_gpu_find(session->info.device_name, &session->gpu);
    tell_of_idle_bundles(session);
    const struct cache_options cache = {.dir = options->cache_dir,
                                        .limit = options->cache_limit,
                                        .disabled = options->no_disk_cache,
                                        .log = options->log,
                                        .log_context = options->log_context};
    session->cache = cache_open(&cache);
    return session->cache ? ATT_OK : failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while opening the cache");
}

enum att_status session_open(const struct att_options *options, const char *compile_for, att_session **result) {
    struct att_options known = {.size = sizeof known};
    if (!result)
        return ATT_INVALID_ARGUMENT;
    att_session *session = *result = calloc(1, sizeof *session);
    if (!session)
        return ATT_OUT_OF_MEMORY;
    session->process = process_number();
    session->asked.limit = TEXTS_KEPT;
    pthread_mutex_init(&session->lock, NULL);
    struct failure failure = {0};
    if (options && sized_read(SIZED_OPTIONS, "options", options, &known, &failure) != ATT_OK)
        return session_fail(session, &failure);
    session->log = known.log;
    session->quick.wanted = known.quick_first != 0;
    session->log_context = known.log_context;
    if (open_parts(session, &known, compile_for, &failure) != ATT_OK)
        return session_fail(session, &failure);
    session->open = true;
    return ATT_OK;
}

enum att_status att_open(const struct att_options *options, att_session **result) {
    return session_open(options, NULL, result);
}

enum att_status session_open_to_choose(const struct att_options *options, const char *device, const char *arch,
                                       att_session **result) {
    struct att_options chosen = *options;
    bool host = strcmp(arch, "host") == 0;
    chosen.device = host ? ATT_DEVICE_HOST : ATT_DEVICE_CUDA;
    enum att_status status = session_open(&chosen, host ? NULL : arch, result);
    if (status != ATT_OK)
        return status;
    att_session *session = *result;
    session->info.device_name = device;
    session->modelled = model_gpu_find(device, &session->gpu);
    if (session->modelled)
        session->info.sm_count = (int)session->gpu.multiprocessors;
    session->tables.bare = options->tuned_table != NULL;
    return ATT_OK;
}

/* --- closing --------------------------------------------------------------------------------------------------- */

void att_close(att_session *session) {
    if (!session)
        return;
    if (session->process != process_number())
        return; /* the device and all locks belong to the parent; touching them here could hang or harm it */
    struct failure failure = {0};
    quick_close(session);
    if (session->backend) /* a fault of an earlier launch can no longer be reported */
        session->type->synchronize(session->backend, &failure);
    failure_clear(&failure);
    for (att_kernel *next, *kernel = session->kernels; kernel; kernel = next) {
        next = kernel->next;
        kernel_free(kernel);
    }
    names_free(&session->variants);
    names_free(&session->asked);
    cache_close(session->cache);
    if (session->backend)
        session->type->close(session->backend);
    tables_close(&session->tables);
    template_set_close(session->templates);
    template_folder_close(session->template_folder);
    free((void *)(uintptr_t)session->bundles);
    for (struct message *next, *message = session->messages; message; message = next) {
        next = message->next;
        text_free(&message->text);
        free(message);
    }
    pthread_mutex_destroy(&session->lock);
    free(session);
}

/* --- describing ------------------------------------------------------------------------------------------------ */

enum att_status att_session_describe(const att_session *session, struct att_session_info *info) {
    att_session *asked = (att_session *)(uintptr_t)session; /* only the message of a failure changes */
    enum att_status status = session_enter(asked);
    if (status != ATT_OK)
        return status;
    struct text identity = {0}; /* asking for it makes the device look for its compiler; att_open does not */
    struct failure failure = {0};
    struct backend_info device;
    session->type->identity(session->backend, NULL, &identity, &failure);
    session->type->describe(session->backend, &device);
    text_free(&identity);
    failure_clear(&failure);
    const struct att_session_info known = {.device = session->type == &backend_cuda ? ATT_DEVICE_CUDA : ATT_DEVICE_HOST,
                                           .multiprocessors = device.multiprocessors,
                                           .device_name = device.device_name,
                                           .arch = device.arch,
                                           .compiler = device.compiler,
                                           .cache_dir = cache_dir(session->cache)};
    if (!info)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "info is null, expected where to put the result");
    else if (sized_write(SIZED_SESSION_INFO, "info", &known, info, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(asked, &failure);
}

enum att_status att_counters_read(att_session *session, struct att_counters *counters, int reset) {
    struct att_counters known = {0};
    struct failure failure = {0};
    enum att_status status = session_enter(session);
    if (status != ATT_OK)
        return status;
    if (!counters)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "counters is null, expected where to put the result");
    else if (sized_write(SIZED_COUNTERS, "counters", &known, counters, &failure) == ATT_OK) {
        session->type->counters(session->backend, &known, reset);
        return sized_write(SIZED_COUNTERS, "counters", &known, counters, &failure);
    }
    return session_fail(session, &failure);
}
