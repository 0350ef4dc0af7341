/* backend_host: this CPU as a device. The C++ compiler compiles kernels into shared objects, which run as fibers; host/
   does the work, this file adapts it to backend.h. */
#include "backend.h"
#include "clock.h"
#include "host/block.h"
#include "host/compiler.h"
#include "host/launch.h"
#include "host/memory.h"
#include "host/object.h"
#include "host/race.h"
#include "host/tensor_map.h"
#include "transfer.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct backend {
    enum att_host_mode mode;
    uint64_t seed;
    int cores;
    char name[128]; /* of the CPU */
    struct memory memory;
    struct block_pool pool;
    pthread_mutex_t lock; /* guards what follows */
    struct compiler compiler;
    struct att_counters counters;
    double started; /* timer, seconds */
};

struct module {
    int file; /* the shared object, in memory; kept open while loaded, because the loader identifies it by its path */
    void *handle;
    struct {
        const struct attile_entry *entry;
        unsigned threads, shared, cluster;
        bool dependent;
    } launch[PLAN_LAUNCHES];
    int launches;
};

static const char *const built_for[] = {
    [ATT_HOST_CHECK] = "host", [ATT_HOST_FAST] = "host_fast", [ATT_HOST_RACE] = "host_race"};
static const char *const mode_name[] = {[ATT_HOST_CHECK] = "check", [ATT_HOST_FAST] = "fast", [ATT_HOST_RACE] = "race"};

/* --- the device ---------------------------------------------------------------------------------------------------- */

static void read_cpu_name(char *name, size_t size) {
    snprintf(name, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " ");
        value[strcspn(value, "\n")] = '\0';
        snprintf(name, size, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

static enum att_status host_open(const struct backend_options *options, struct backend **out, struct failure *failure) {
    *out = NULL;
    if ((unsigned)options->host_mode >= sizeof mode_name / sizeof *mode_name)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "host_mode: expected 0 to 2, found %d",
                           (int)options->host_mode);
    if (options->host_mode == ATT_HOST_RACE && !(race_present() && race_hooked()))
        return failure_set(
            failure, ATT_UNSUPPORTED,
            "host mode `race` is for programs that hand it the reports of ThreadSanitizer; use `attile-race`");
    struct backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory for a session");
    backend->mode = options->host_mode;
    backend->seed = options->host_seed;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    backend->cores = cores > 0 ? (int)cores : 1;
    read_cpu_name(backend->name, sizeof backend->name);
    memory_open(&backend->memory);
    pthread_mutex_init(&backend->pool.lock, NULL);
    pthread_mutex_init(&backend->lock, NULL);
    compiler_find(&backend->compiler);
    *out = backend;
    return ATT_OK;
}

static void host_close(struct backend *backend) {
    if (!backend)
        return;
    block_pool_free(&backend->pool);
    memory_close(&backend->memory);
    compiler_free(&backend->compiler);
    pthread_mutex_destroy(&backend->pool.lock);
    pthread_mutex_destroy(&backend->lock);
    free(backend);
}

static void host_describe(const struct backend *backend, struct backend_info *info) {
    const struct compiler *compiler = &backend->compiler;
    const char *version = __atomic_load_n(&compiler->version, __ATOMIC_ACQUIRE);
    *info = (struct backend_info){
        .device_name = backend->name,
        .arch = "host",
        .built_for = built_for[backend->mode],
        .compiler = version          ? version
                    : compiler->path ? compiler->path
                                     : "none: $CXX, or without it c++, g++ or clang++, was not found on the PATH",
        .driver = "",
        .multiprocessors = backend->cores,
        .sm_count = 2 + (int)((backend->seed + 2) % 5), /* few: some blocks process several tiles, some none */
    };
}

/* --- compiling and loading ----------------------------------------------------------------------------------------- */

static enum att_status ask_compiler(struct backend *backend, struct failure *failure) {
    pthread_mutex_lock(&backend->lock);
    enum att_status status = compiler_ask(&backend->compiler, failure);
    pthread_mutex_unlock(&backend->lock);
    return status;
}

static enum att_status host_identity(struct backend *backend, const char *arch, struct text *text,
                                     struct failure *failure) {
    (void)arch;
    enum att_status status = ask_compiler(backend, failure);
    if (status)
        return status;
    text_print(text, "device: host\nmode: %s\n", mode_name[backend->mode]);
    compiler_describe(&backend->compiler, backend->mode, text);
    return text->failed ? failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory") : ATT_OK;
}

static enum att_status host_compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                    struct failure *failure) {
    return compiler_run(&backend->compiler, backend->mode, job, binary, failure);
}

static void host_unload(struct backend *backend, struct module *module) {
    (void)backend;
    if (!module)
        return;
    if (module->handle)
        dlclose(module->handle);
    if (module->file >= 0)
        close(module->file);
    free(module);
}

static const struct attile_entry *find_entry(const struct attile_module *table, const char *name) {
    for (int i = 0; i < table->entries; i++)
        if (strcmp(table->entry[i].name, name) == 0)
            return &table->entry[i];
    return NULL;
}

/* The path by which the loader, the symbolizer of ThreadSanitizer, and addr2line know the object. */
static void object_path(const struct module *module, char path[64]) {
    snprintf(path, 64, "/proc/%ld/fd/%d", (long)getpid(), module->file);
}

static enum att_status load_into(struct backend *backend, struct module *module, const void *bytes, size_t size,
                                 const struct plan *plan, struct failure *failure) {
    char path[64];
    const char *damage = object_check(bytes, size);
    if (damage)
        return failure_set(failure, ATT_LAUNCH_FAILED, "a compiled kernel of %zu bytes is damaged: %s", size, damage);
    module->file = memfd_create("attile-kernel", MFD_CLOEXEC);
    if (module->file < 0 || !transfer_write(module->file, bytes, size))
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory to load a kernel of %zu bytes: %s", size,
                           strerror(errno));
    object_path(module, path);
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module->handle)
        return failure_set(failure, ATT_UNSUPPORTED, "this process cannot load a compiled kernel, which is whole: %s",
                           dlerror());
    const struct attile_module *table = dlsym(module->handle, "attile_module_table");
    if (!table || table->abi != ATTILE_HOST_ABI || table->mode != (int)backend->mode)
        return failure_set(failure, ATT_LAUNCH_FAILED, "a compiled kernel was made for another version or host mode");
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        const struct attile_entry *entry = find_entry(table, launch->entry);
        if (!entry)
            return failure_set(failure, ATT_LAUNCH_FAILED, "a compiled kernel has no entry %s", launch->entry);
        if (launch->block < 1 || launch->block > LAUNCH_THREADS)
            return failure_set(failure, ATT_LAUNCH_FAILED, "%s: expected blocks of 1 to %d threads, found %d",
                               launch->entry, LAUNCH_THREADS, launch->block);
        if (launch->shared < 0 || launch->shared > LAUNCH_SHARED)
            return failure_set(failure, ATT_LAUNCH_FAILED, "%s: expected at most %d bytes of shared memory, found %d",
                               launch->entry, LAUNCH_SHARED, launch->shared);
        if (launch->cluster < 0 || launch->cluster > ATTILE_CLUSTER)
            return failure_set(failure, ATT_LAUNCH_FAILED, "%s: expected clusters of at most %d blocks, found %d",
                               launch->entry, ATTILE_CLUSTER, launch->cluster);
        module->launch[i].entry = entry;
        module->launch[i].threads = (unsigned)launch->block;
        module->launch[i].shared = (unsigned)launch->shared;
        module->launch[i].cluster = launch->cluster ? (unsigned)launch->cluster : 1;
        module->launch[i].dependent = launch->dependent;
    }
    module->launches = plan->launches;
    return ATT_OK;
}

static enum att_status host_load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                                 struct module **out, struct failure *failure) {
    *out = NULL;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory to load a kernel");
    module->file = -1;
    enum att_status status = load_into(backend, module, bytes, size, plan, failure);
    if (status) {
        host_unload(backend, module);
        return status;
    }
    *out = module;
    return ATT_OK;
}

/* --- launching ----------------------------------------------------------------------------------------------------- */

/* Returns the line in the kernel's source for a code address; 0 = not known. */
static int find_line(const struct backend *backend, const struct module *module, const void *pc) {
    Dl_info info;
    if (!pc || !dladdr(pc, &info))
        return 0;
    char path[64];
    object_path(module, path);
    return compiler_line(&backend->compiler, path, (size_t)((const char *)pc - (const char *)info.dli_fbase));
}

static void report_access(const struct backend *backend, const struct module *module, const struct race_access *access,
                          struct failure *failure) {
    int line = 0;
    for (int i = 0; i < RACE_FRAMES && access->pc[i] && !line; i++)
        line = find_line(backend, module, (const char *)access->pc[i] - 1); /* the call before the return address */
    failure_add(failure, "\n  %s %s %d bytes", access->who[0] ? access->who : "a thread",
                access->write ? "writes" : "reads", access->size);
    if (line)
        failure_add(failure, ", line %d", line);
}

static enum att_status report(const struct backend *backend, const struct module *module, const struct launch *launch,
                              struct failure *failure) {
    if (launch->race.count && !launch->fault.text.size) {
        failure_set(failure, ATT_LAUNCH_FAILED, "kernel %s: race: nothing orders these two accesses to the same memory",
                    launch->entry->name);
        report_access(backend, module, &launch->race.access[0], failure);
        report_access(backend, module, &launch->race.access[1], failure);
        return ATT_LAUNCH_FAILED;
    }
    const struct fault *fault = &launch->fault;
    int line = fault->line ? fault->line : find_line(backend, module, fault->pc);
    failure_set(failure, ATT_LAUNCH_FAILED, "kernel %s, ", launch->entry->name);
    if (line)
        failure_add(failure, "line %d, ", line);
    return failure_add(failure, "block %u, thread %u: %s", fault->block, fault->thread, text_string(&fault->text));
}

static enum att_status host_encode_map(struct backend *backend, const struct map_request *request, void *map,
                                       struct failure *failure) {
    (void)backend;
    return tensor_map_encode(request, map, failure);
}

static enum att_status host_launch(struct backend *backend, struct module *module, int index, int64_t grid,
                                   const void *params, size_t params_size, void *stream, struct failure *failure) {
    (void)stream;
    if (index < 0 || index >= module->launches)
        return failure_set(failure, ATT_INTERNAL, "launch %d of a plan with %d", index, module->launches);
    const struct attile_entry *entry = module->launch[index].entry;
    if (grid < 0 || grid > INT32_MAX)
        return failure_set(failure, ATT_LAUNCH_FAILED, "%s: expected 0 to %d blocks, found %lld", entry->name,
                           INT32_MAX, (long long)grid);
    if (grid % module->launch[index].cluster)
        return failure_set(failure, ATT_LAUNCH_FAILED, "%s: %lld blocks are not whole clusters of %u", entry->name,
                           (long long)grid, module->launch[index].cluster);
    if (params_size != entry->params_size || params_size > LAUNCH_PARAMS)
        return failure_set(failure, ATT_LAUNCH_FAILED, "%s: expected %llu bytes of parameters, found %zu", entry->name,
                           entry->params_size, params_size);
    struct launch launch = {
        .entry = entry,
        .params = params,
        .memory = &backend->memory,
        .pool = &backend->pool,
        .mode = backend->mode,
        .seed = backend->seed,
        .workers = (unsigned)backend->cores,
        .grid = (unsigned)grid,
        .cluster = module->launch[index].cluster,
        .dependent = module->launch[index].dependent,
        .threads = module->launch[index].threads,
        .shared = module->launch[index].shared,
    };
    Dl_info info;
    if (dladdr(entry, &info))
        launch.image = info.dli_fbase;
    enum att_status status = launch_run(&launch);
    if (status == ATT_LAUNCH_FAILED)
        report(backend, module, &launch, failure);
    else if (status)
        failure_set(failure, status, "no memory for the %u stacks of a block", launch.threads);
    else if (backend->mode != ATT_HOST_CHECK)
        status = memory_check(&backend->memory, failure);
    text_free(&launch.fault.text);
    pthread_mutex_lock(&backend->lock);
    backend->counters.global_read += launch.counters.global_read;
    backend->counters.global_written += launch.counters.global_written;
    backend->counters.shared_read += launch.counters.shared_read;
    backend->counters.shared_written += launch.counters.shared_written;
    backend->counters.shared_conflicts += launch.counters.shared_conflicts;
    pthread_mutex_unlock(&backend->lock);
    return status;
}

/* --- memory and time ----------------------------------------------------------------------------------------------- */

static enum att_status host_alloc(struct backend *backend, size_t bytes, void **device, struct failure *failure) {
    return memory_alloc(&backend->memory, bytes, device, failure);
}

static enum att_status host_free(struct backend *backend, void *device, struct failure *failure) {
    return memory_free(&backend->memory, device, failure);
}

static enum att_status check_range(struct backend *backend, const void *device, size_t bytes, struct failure *failure) {
    struct buffer buffer, nearest;
    if (bytes == 0 || memory_find(&backend->memory, (uintptr_t)device, bytes, &buffer, &nearest))
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT, "copy: %zu bytes at %p are not within one buffer of this session",
                       bytes, device);
}

static enum att_status host_copy_in(struct backend *backend, void *device, const void *source, size_t bytes,
                                    struct failure *failure) {
    enum att_status status = check_range(backend, device, bytes, failure);
    if (!status && bytes)
        memcpy(device, source, bytes);
    return status;
}

static enum att_status host_copy_out(struct backend *backend, void *target, const void *device, size_t bytes,
                                     struct failure *failure) {
    enum att_status status = check_range(backend, device, bytes, failure);
    if (!status && bytes)
        memcpy(target, device, bytes);
    return status;
}

static enum att_status host_synchronize(struct backend *backend, struct failure *failure) {
    (void)backend, (void)failure;
    return ATT_OK; /* launches have ended when they return */
}

static enum att_status host_timer_start(struct backend *backend, void *stream, struct failure *failure) {
    (void)stream, (void)failure;
    pthread_mutex_lock(&backend->lock);
    backend->started = clock_seconds();
    pthread_mutex_unlock(&backend->lock);
    return ATT_OK;
}

static enum att_status host_timer_stop(struct backend *backend, void *stream, double *seconds,
                                       struct failure *failure) {
    (void)stream, (void)failure;
    pthread_mutex_lock(&backend->lock);
    *seconds = clock_seconds() - backend->started;
    pthread_mutex_unlock(&backend->lock);
    return ATT_OK;
}

static void host_counters(struct backend *backend, struct att_counters *counters, int reset) {
    pthread_mutex_lock(&backend->lock);
    *counters = backend->counters;
    if (reset)
        backend->counters = (struct att_counters){0};
    pthread_mutex_unlock(&backend->lock);
}

const struct backend_type backend_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .describe = host_describe,
    .identity = host_identity,
    .compile = host_compile,
    .load = host_load,
    .unload = host_unload,
    .encode_map = host_encode_map,
    .launch = host_launch,
    .alloc = host_alloc,
    .free = host_free,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .synchronize = host_synchronize,
    .timer_start = host_timer_start,
    .timer_stop = host_timer_stop,
    .counters = host_counters,
};
