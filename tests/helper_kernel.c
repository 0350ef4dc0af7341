#include "helper_kernel.h"

#include <stdio.h>
#include <stdlib.h>

static void must(enum att_status status, const struct failure *failure) {
    if (!status)
        return;
    fprintf(stderr, "status %d: %s\n", (int)status, text_string(&failure->text));
    exit(3);
}

struct device device_open(enum att_host_mode mode, uint64_t seed) {
    struct device device = {0};
    struct backend_options options = {.host_mode = mode, .host_seed = seed};
    must(backend_host.open(&options, &device.backend, &device.failure), &device.failure);
    return device;
}

void device_close(struct device *device) {
    backend_host.close(device->backend);
    failure_clear(&device->failure);
}

void *device_buffer(struct device *device, size_t bytes, const void *contents) {
    void *buffer;
    must(backend_host.alloc(device->backend, bytes, &buffer, &device->failure), &device->failure);
    if (contents)
        must(backend_host.copy_in(device->backend, buffer, contents, bytes, &device->failure), &device->failure);
    return buffer;
}

/* Runs the kernel with the launch attributes in `how`. */
static enum att_status run(struct device *device, const struct kernel *kernel, struct plan_launch how,
                           const void *params, size_t size) {
    struct failure *failure = &device->failure;
    const char *const entries[] = {"kernel"};
    struct compile_job job = {.source = kernel->source, .name = "kernel.cu", .entries = entries, .entry_count = 1};
    struct plan plan = {.launches = 1,
                        .launch = {{.entry = "kernel",
                                    .block = kernel->block,
                                    .shared = kernel->shared,
                                    .cluster = how.cluster,
                                    .dependent = how.dependent}}};
    struct binary binary;
    struct module *module;
    failure_clear(failure);
    must(backend_host.compile(device->backend, &job, &binary, failure), failure);
    must(backend_host.load(device->backend, binary.bytes, binary.size, &plan, &module, failure), failure);
    binary_free(&binary);
    enum att_status status = backend_host.launch(device->backend, module, 0, kernel->grid, params, size, NULL, failure);
    backend_host.unload(device->backend, module);
    return status;
}

enum att_status device_run(struct device *device, const struct kernel *kernel, const void *params, size_t size) {
    return run(device, kernel, (struct plan_launch){0}, params, size);
}

enum att_status device_run_clusters(struct device *device, const struct kernel *kernel, int cluster, const void *params,
                                    size_t size) {
    return run(device, kernel, (struct plan_launch){.cluster = cluster}, params, size);
}

enum att_status device_run_dependent(struct device *device, const struct kernel *kernel, const void *params,
                                     size_t size) {
    return run(device, kernel, (struct plan_launch){.dependent = true}, params, size);
}
