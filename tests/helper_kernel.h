/* helper_kernel: runs one hand-written kernel on the host device. Anything but the kernel failing ends the program. */
#ifndef HELPER_KERNEL_H
#define HELPER_KERNEL_H

#include "backend.h"

struct device {
    struct backend *backend;
    struct failure failure; /* of the last run */
};

struct device device_open(enum att_host_mode mode, uint64_t seed);
void device_close(struct device *device);

/* A buffer with these contents; null = as it comes. Freed with the device. */
void *device_buffer(struct device *device, size_t bytes, const void *contents);

struct kernel {
    const char *source; /* its entry is called `kernel` and takes one parameter struct by value */
    int grid, block, shared;
};

/* Compile, load, launch, unload. The launch's status; see device->failure. Blocks run in clusters of so many; 0 = none. */
enum att_status device_run_clusters(struct device *device, const struct kernel *kernel, int cluster, const void *params,
                                    size_t size);
/* Launch it as one that waits for the launch ahead of it by itself. */
enum att_status device_run_dependent(struct device *device, const struct kernel *kernel, const void *params,
                                     size_t size);
enum att_status device_run(struct device *device, const struct kernel *kernel, const void *params, size_t size);

#endif
