/* The cuda device: runs cubins from NVRTC through the driver in the device's primary context, which we share with
   everything else that the process does on that GPU. Each call makes the context current and restores the previous one
   at its end. */
#include "backend.h"
#include "cubin.h"
#include "cuda_api.h"
#include "knobs.h"
#include "l2_flush.h"
#include "nvml.h"
#include "nvrtc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 128, ARCH = 16, WHAT = 192, VERSION = 32, BUS = 32 };

struct backend {
    struct cuda_api api;
    int device, multiprocessors, major, minor, shared_most; /* shared_most: bytes per block with opt-in */
    void *context;                                          /* the primary one, retained */
    char name[NAME], arch[ARCH], driver[VERSION];
    int l2_bytes;
    atomic_bool dependents;         /* may launches start before the one ahead of them has ended? */
    pthread_mutex_t lock;           /* guards what follows */
    _Atomic(struct nvrtc *) nvrtc;  /* opened when first needed, which may be never */
    struct text no_nvrtc;           /* why there is none, after an attempt */
    void *event_start, *event_stop; /* of the timer */
    struct l2_flush flush;
    struct nvml *nvml; /* null: not there, or not opened yet */
    bool nvml_tried;
};

struct module {
    void *handle;
    int launches;
    struct {
        void *function;
        unsigned block, shared, cluster;
        bool dependent;
    } launch[PLAN_LAUNCHES];
};

static enum att_status check(struct backend *backend, int error, enum att_status status, struct failure *failure,
                             const char *what) {
    return error == CUDA_OK ? ATT_OK : cuda_api_failure(&backend->api, error, status, failure, what);
}

/* Every driver call is enclosed by enter and leave. */
static enum att_status enter(struct backend *backend, struct failure *failure) {
    if (!backend->context)
        return failure_set(failure, ATT_NO_DEVICE, "this session only compiles; it has no GPU");
    return check(backend, backend->api.push(backend->context), ATT_LAUNCH_FAILED, failure,
                 "making the GPU's context current");
}

static void leave(struct backend *backend) {
    void *context;
    backend->api.pop(&context);
}

/* --- opening --------------------------------------------------------------------------------------------------- */

static enum att_status read_device(struct backend *backend, int ordinal, struct failure *failure) {
    const struct cuda_api *api = &backend->api;
    int count = 0, error = api->device_count(&count);
    if (error != CUDA_OK)
        return cuda_api_failure(api, error, ATT_NO_DEVICE, failure, "counting GPUs");
    if (ordinal < 0 || ordinal >= count)
        return failure_set(failure, count > 0 ? ATT_INVALID_ARGUMENT : ATT_NO_DEVICE,
                           "ordinal: there is no GPU number %d; this machine has %d, counted from 0", ordinal, count);
    const struct {
        int attribute, *value;
    } wanted[] = {{CUDA_MULTIPROCESSORS, &backend->multiprocessors},
                  {CUDA_CAPABILITY_MAJOR, &backend->major},
                  {CUDA_CAPABILITY_MINOR, &backend->minor},
                  {CUDA_SHARED_OPT_IN, &backend->shared_most},
                  {CUDA_L2_BYTES, &backend->l2_bytes}};
    error = api->device_get(&backend->device, ordinal);
    if (error == CUDA_OK)
        error = api->device_name(backend->name, sizeof backend->name, backend->device);
    for (size_t i = 0; error == CUDA_OK && i < sizeof wanted / sizeof *wanted; i++)
        error = api->device_attribute(wanted[i].value, wanted[i].attribute, backend->device);
    /* from 9.0 on the `a` suffix enables all instructions of exactly this GPU; other GPUs cannot run such a binary, and
       need not */
    snprintf(backend->arch, sizeof backend->arch, "sm_%d%d%s", backend->major, backend->minor,
             backend->major >= 9 ? "a" : "");
    enum { DEPENDENTS_IN_GRAPHS = 12030 }; /* older drivers do not preserve them when a graph is captured */
    int version = 0;
    if (api->driver_version(&version) == CUDA_OK)
        snprintf(backend->driver, sizeof backend->driver, "%d.%d", version / 1000, version % 1000 / 10);
    atomic_init(&backend->dependents, backend->major >= 9 && version >= DEPENDENTS_IN_GRAPHS);
    return check(backend, error, ATT_NO_DEVICE, failure, "asking about the GPU");
}

static void cuda_close(struct backend *backend) {
    if (!backend)
        return;
    if (backend->context) {
        if (backend->api.push(backend->context) == CUDA_OK) { /* fails if the driver is gone: all is freed */
            if (backend->event_start)
                backend->api.event_destroy(backend->event_start);
            if (backend->event_stop)
                backend->api.event_destroy(backend->event_stop);
            l2_flush_free(&backend->api, &backend->flush);
            leave(backend);
        }
        backend->api.primary_release(backend->device);
    }
    nvml_close(backend->nvml);
    nvrtc_close(backend->nvrtc);
    text_free(&backend->no_nvrtc);
    pthread_mutex_destroy(&backend->lock);
    free(backend);
}

/* Opens only the compiler, for this architecture: everything that needs a device fails. */
static enum att_status open_compiler(struct backend *backend, const char *arch, struct failure *failure) {
    int number = 0;
    if (sscanf(arch, "sm_%d", &number) != 1 || strlen(arch) >= ARCH)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "'%s' is no architecture; expected sm_90a or its like", arch);
    snprintf(backend->arch, sizeof backend->arch, "%s", arch);
    snprintf(backend->name, sizeof backend->name, "no device, compiling for %s", arch);
    backend->major = number / 10;
    backend->minor = number % 10;
    return ATT_OK;
}

static enum att_status open_device(struct backend *backend, int ordinal, struct failure *failure) {
    enum att_status status = cuda_api_open(&backend->api, failure);
    if (status == ATT_OK)
        status = read_device(backend, ordinal, failure);
    if (status == ATT_OK)
        status = check(backend, backend->api.primary_retain(&backend->context, backend->device), ATT_NO_DEVICE, failure,
                       "opening the GPU's primary context");
    return status;
}

static enum att_status cuda_open(const struct backend_options *options, struct backend **result,
                                 struct failure *failure) {
    *result = NULL;
    struct backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while opening the cuda device");
    pthread_mutex_init(&backend->lock, NULL);
    enum att_status status = options->compile_for ? open_compiler(backend, options->compile_for, failure)
                                                  : open_device(backend, options->ordinal, failure);
    if (status != ATT_OK) {
        cuda_close(backend);
        return status;
    }
    *result = backend;
    return ATT_OK;
}

/* --- compiling ------------------------------------------------------------------------------------------------- */

static struct nvrtc *get_nvrtc(struct backend *backend, struct failure *failure) {
    pthread_mutex_lock(&backend->lock);
    if (!backend->nvrtc && !backend->no_nvrtc.size) {
        struct failure why = {0};
        struct nvrtc *opened;
        if (nvrtc_open(&opened, &why) == ATT_OK)
            backend->nvrtc = opened;
        else
            text_print(&backend->no_nvrtc, "%s", text_string(&why.text));
        failure_clear(&why);
    }
    struct nvrtc *nvrtc = backend->nvrtc;
    pthread_mutex_unlock(&backend->lock);
    if (!nvrtc)
        failure_set(failure, ATT_NO_COMPILER, "%s", text_string(&backend->no_nvrtc));
    return nvrtc;
}

static void cuda_describe(const struct backend *backend, struct backend_info *info) {
    struct nvrtc_info compiler = {.title = "none: NVRTC was not looked for, or not found"};
    const struct nvrtc *nvrtc = backend->nvrtc;
    if (nvrtc)
        nvrtc_describe(nvrtc, &compiler);
    *info = (struct backend_info){.device_name = backend->name,
                                  .arch = backend->arch,
                                  .built_for = backend->arch,
                                  .compiler = compiler.title,
                                  .driver = backend->driver,
                                  .multiprocessors = backend->multiprocessors,
                                  .sm_count = backend->multiprocessors,
                                  .arch_number = backend->major * 10 + backend->minor};
}

static enum att_status cuda_identity(struct backend *backend, const char *arch, struct text *text,
                                     struct failure *failure) {
    const struct nvrtc *nvrtc = get_nvrtc(backend, failure);
    if (!nvrtc)
        return failure->status;
    nvrtc_identity(nvrtc, arch ? arch : backend->arch, text);
    return ATT_OK;
}

static bool cuda_search(struct backend *backend, struct text *text) { return !backend->nvrtc && nvrtc_search(text); }

static enum att_status cuda_compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                    struct failure *failure) {
    const struct nvrtc *nvrtc = get_nvrtc(backend, failure);
    if (!nvrtc)
        return failure->status;
    struct compile_job own = *job;
    if (!own.arch)
        own.arch = backend->arch;
    return nvrtc_compile(nvrtc, &own, binary, failure);
}

/* --- modules --------------------------------------------------------------------------------------------------- */

static void cuda_unload(struct backend *backend, struct module *module) {
    if (!module)
        return;
    if (module->handle && backend->context && backend->api.push(backend->context) == CUDA_OK) {
        backend->api.module_unload(module->handle);
        leave(backend);
    }
    free(module);
}

static enum att_status load_functions(struct backend *backend, const struct plan *plan, struct module *module,
                                      struct failure *failure) {
    enum { ALL_SHARED = 100 }; /* percent */
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        void **function = &module->launch[i].function;
        char what[WHAT];
        if (launch->shared > backend->shared_most)
            return failure_set(failure, ATT_UNSUPPORTED,
                               "kernel '%s' needs %d bytes of shared memory for a block; %s has %d", launch->entry,
                               launch->shared, backend->name, backend->shared_most);
        snprintf(what, sizeof what, "finding kernel '%s' in its binary", launch->entry);
        int error = backend->api.module_function(function, module->handle, launch->entry);
        if (error == CUDA_OK) {
            snprintf(what, sizeof what, "giving kernel '%s' %d bytes of shared memory", launch->entry, launch->shared);
            error = backend->api.function_set(*function, CUDA_MAX_DYNAMIC_SHARED, launch->shared);
        }
        if (error != CUDA_OK)
            return cuda_api_failure(&backend->api, error, cuda_api_load_status(error), failure, what);
        module->launch[i].block = (unsigned)launch->block;
        module->launch[i].shared = (unsigned)launch->shared;
        module->launch[i].cluster = (unsigned)launch->cluster;
        module->launch[i].dependent = launch->dependent;
        /* A multiprocessor changes its split of L1 and shared memory only when it is idle, so kernels that are to run
           there side by side request the same split. The driver may ignore this hint. */
        if (launch->dependent && plan->launches > 1)
            backend->api.function_set(*function, CUDA_SHARED_CARVEOUT, ALL_SHARED);
    }
    module->launches = plan->launches;
    return ATT_OK;
}

/* True for PTX, a string, which the driver compiles; a cubin has a NUL among its first bytes. */
static bool is_ptx(const void *bytes, size_t size) {
    return size > 0 && memchr(bytes, '\0', size) == (const char *)bytes + size - 1;
}

static enum att_status cuda_load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                                 struct module **result, struct failure *failure) {
    *result = NULL;
    for (int i = 0; !is_ptx(bytes, size) && i < plan->launches;
         i++) { /* the driver is not told the size, so the binary must be complete */
        struct cubin_usage usage;
        if (!cubin_read(bytes, size, plan->launch[i].entry, &usage))
            return failure_set(failure, ATT_LAUNCH_FAILED, "the binary is damaged or holds no kernel '%s'",
                               plan->launch[i].entry);
    }
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while loading a kernel");
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK) {
        free(module);
        return failure->status = ATT_NO_DEVICE; /* the binary is not at fault */
    }
    int mode = CUDA_CAPTURE_MODE_RELAXED; /* loading must not break a capture in progress elsewhere in the process */
    backend->api.capture_mode(&mode);
    int error = backend->api.module_load(&module->handle, bytes);
    status = check(backend, error, cuda_api_load_status(error), failure, "loading a binary onto the GPU");
    if (status == ATT_OK)
        status = load_functions(backend, plan, module, failure);
    backend->api.capture_mode(&mode);
    leave(backend);
    if (status != ATT_OK) {
        cuda_unload(backend, module);
        return status;
    }
    *result = module;
    return ATT_OK;
}

static enum att_status cuda_prepare(struct backend *backend, struct module *module, struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int mode = CUDA_CAPTURE_MODE_RELAXED;
    backend->api.capture_mode(&mode);
    for (int i = 0; status == ATT_OK && backend->api.function_load && i < module->launches; i++)
        status = check(backend, backend->api.function_load(module->launch[i].function), ATT_LAUNCH_FAILED, failure,
                       "loading a kernel onto the GPU");
    backend->api.capture_mode(&mode);
    leave(backend);
    return status;
}

static bool cuda_capturing(struct backend *backend, void *stream) {
    int capture = CUDA_CAPTURE_NONE;
    if (backend->api.push(backend->context) != CUDA_OK)
        return false;
    backend->api.stream_capturing(stream, &capture);
    leave(backend);
    return capture != CUDA_CAPTURE_NONE;
}

/* --- launching ------------------------------------------------------------------------------------------------- */

static enum att_status cuda_launch(struct backend *backend, struct module *module, int launch, int64_t grid,
                                   const void *params, size_t params_size, void *stream, struct failure *failure) {
    (void)params_size; /* the driver knows it from the kernel */
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    void *arguments[] = {(void *)(uintptr_t)params}, *function = module->launch[launch].function;
    unsigned cluster = module->launch[launch].cluster;
    struct cuda_launch_attribute attributes[2];
    struct cuda_launch config = {.grid = {(unsigned)grid, 1, 1},
                                 .block = {module->launch[launch].block, 1, 1},
                                 .shared = module->launch[launch].shared,
                                 .stream = stream,
                                 .attributes = attributes};
    if (cluster)
        attributes[config.count++] =
            (struct cuda_launch_attribute){.id = CUDA_CLUSTER_DIMENSION, .value = {cluster, 1, 1}};
    bool dependent = module->launch[launch].dependent && atomic_load(&backend->dependents);
    if (dependent) /* last, so that it can be removed again */
        attributes[config.count++] =
            (struct cuda_launch_attribute){.id = CUDA_PROGRAMMATIC_SERIALIZATION, .value = {1}};
    int error = backend->api.launch(&config, function, arguments, NULL);
    if (dependent && (error == CUDA_INVALID_VALUE || error == CUDA_NOT_SUPPORTED)) {
        config.count--;
        error = backend->api.launch(&config, function, arguments, NULL);
        if (error == CUDA_OK) /* the driver does not take the attribute: do not ask again */
            atomic_store(&backend->dependents, false);
    }
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "launching a kernel");
}

static enum att_status cuda_encode_map(struct backend *backend, const struct map_request *request, void *map,
                                       struct failure *failure) {
    static const int types[] = {
        [dtype_fp32] = CUDA_TYPE_FP32, [dtype_fp16] = CUDA_TYPE_FP16, [dtype_bf16] = CUDA_TYPE_BF16};
    const unsigned steps[] = {1, 1, 1, 1};
    const unsigned box[] = {(unsigned)request->box[0], (unsigned)request->box[1], (unsigned)request->box[2], 1};
    uint64_t dims[4], strides[3], element = request->dtype == dtype_fp32 ? 4 : 2;
    for (int i = 0; i < 4; i++)
        dims[i] = (uint64_t)request->dim[i];
    for (int i = 0; i < 3; i++)
        strides[i] = (uint64_t)request->stride[i] * element;
    if (!backend->api.encode_tiled)
        return failure_set(failure, ATT_UNSUPPORTED,
                           "libcuda.so.1 has no cuTensorMapEncodeTiled: a driver for CUDA 12 or newer is needed");
    enum att_status status = enter(backend, failure); /* the driver refuses without a current context */
    if (status != ATT_OK)
        return status;
    int error =
        backend->api.encode_tiled(map, types[request->dtype], 4, (void *)(uintptr_t)request->data, dims, strides, box,
                                  steps, CUDA_INTERLEAVE_NONE, CUDA_SWIZZLE_128B, CUDA_L2_128B, CUDA_FILL_ZERO);
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "describing a tensor to TMA");
}

static enum att_status cuda_synchronize(struct backend *backend, struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = backend->api.context_synchronize();
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure,
                 "waiting for the GPU (an earlier kernel may have faulted)");
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

static enum att_status cuda_alloc(struct backend *backend, size_t bytes, void **device, struct failure *failure) {
    *device = NULL;
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    uint64_t address = 0;
    char what[WHAT];
    snprintf(what, sizeof what, "allocating %zu bytes on the GPU", bytes);
    int error = backend->api.alloc(&address, bytes ? bytes : 1); /* the driver refuses empty allocations; we do not */
    leave(backend);
    *device = (void *)(uintptr_t)address;
    return check(backend, error, ATT_LAUNCH_FAILED, failure, what);
}

static enum att_status cuda_free(struct backend *backend, void *device, struct failure *failure) {
    if (!device)
        return ATT_OK;
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = backend->api.free((uint64_t)(uintptr_t)device);
    leave(backend);
    return error == CUDA_DEINITIALIZED ? ATT_OK
                                       : check(backend, error, ATT_LAUNCH_FAILED, failure, "freeing GPU memory");
}

static enum att_status cuda_copy_in(struct backend *backend, void *device, const void *host, size_t bytes,
                                    struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = backend->api.copy_in((uint64_t)(uintptr_t)device, host, bytes);
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "copying to the GPU");
}

static enum att_status cuda_copy_out(struct backend *backend, void *host, const void *device, size_t bytes,
                                     struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = backend->api.copy_out(host, (uint64_t)(uintptr_t)device, bytes);
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "copying from the GPU");
}

/* --- timing ---------------------------------------------------------------------------------------------------- */

static enum att_status cuda_timer_start(struct backend *backend, void *stream, struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = CUDA_OK;
    if (!backend->event_start)
        error = backend->api.event_create(&backend->event_start, 0);
    if (error == CUDA_OK && !backend->event_stop)
        error = backend->api.event_create(&backend->event_stop, 0);
    if (error == CUDA_OK)
        error = backend->api.event_record(backend->event_start, stream);
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "starting the timer");
}

static enum att_status cuda_timer_stop(struct backend *backend, void *stream, double *seconds,
                                       struct failure *failure) {
    *seconds = 0;
    if (!backend->event_stop)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "the timer was never started");
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    float milliseconds = 0;
    int error = backend->api.event_record(backend->event_stop, stream);
    if (error == CUDA_OK)
        error = backend->api.event_synchronize(backend->event_stop);
    if (error == CUDA_OK)
        error = backend->api.event_elapsed(&milliseconds, backend->event_start, backend->event_stop);
    leave(backend);
    *seconds = (double)milliseconds / 1e3;
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "stopping the timer");
}

/* The flush takes tens of microseconds, during which the host gets ahead: a launch that follows starts at once. */
static enum att_status cuda_flush(struct backend *backend, void *stream, struct failure *failure) {
    enum att_status status = enter(backend, failure);
    if (status != ATT_OK)
        return status;
    int error = l2_flush(&backend->api, &backend->flush, backend->l2_bytes, backend->multiprocessors, stream);
    leave(backend);
    return check(backend, error, ATT_LAUNCH_FAILED, failure, "flushing the GPU's caches");
}

static void cuda_clocks(struct backend *backend, int *sm_mhz, int *memory_mhz) {
    char bus[BUS];
    *sm_mhz = *memory_mhz = -1;
    if (!backend->nvml_tried && backend->context &&
        backend->api.device_bus(bus, sizeof bus, backend->device) == CUDA_OK)
        backend->nvml = nvml_open(bus);
    backend->nvml_tried = true;
    if (backend->nvml)
        nvml_clocks(backend->nvml, sm_mhz, memory_mhz);
}

static void cuda_counters(struct backend *backend, struct att_counters *counters, int reset) {
    (void)backend;
    (void)reset;
    *counters = (struct att_counters){0};
}

const struct backend_type backend_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .identity = cuda_identity,
    .search = cuda_search,
    .compile = cuda_compile,
    .load = cuda_load,
    .unload = cuda_unload,
    .prepare = cuda_prepare,
    .capturing = cuda_capturing,
    .encode_map = cuda_encode_map,
    .launch = cuda_launch,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .synchronize = cuda_synchronize,
    .timer_start = cuda_timer_start,
    .timer_stop = cuda_timer_stop,
    .flush = cuda_flush,
    .clocks = cuda_clocks,
    .counters = cuda_counters,
};
