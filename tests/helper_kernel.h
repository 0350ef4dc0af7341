/* helper_kernel: runs one hand-written kernel on the host device. Any failure except the kernel's own
   ends the program. */
#ifndef HELPER_KERNEL_H
#define HELPER_KERNEL_H

#include "backend.h"

struct device {
    struct backend *backend;
    struct failure failure; /* of the last run */
};

struct device device_open(enum att_host_mode mode, uint64_t seed);
void device_close(struct device *device);

/* Allocates a buffer with these contents; null = uninitialised. Freed with the device. */
void *device_buffer(struct device *device, size_t bytes, const void *contents);

struct kernel {
    const char *source; /* its entry is named `kernel` and takes one parameter struct by value */
    int grid, block, shared;
};

/* Compiles, loads, launches and unloads the kernel. Returns the launch's status; see device->failure. `cluster` =
   blocks per cluster; 0 = no clusters. */
enum att_status device_run_clusters(struct device *device, const struct kernel *kernel, int cluster, const void *params,
                                    size_t size);
/* Launches the kernel as one that itself waits for the preceding launch. */
enum att_status device_run_dependent(struct device *device, const struct kernel *kernel, const void *params,
                                     size_t size);
enum att_status device_run(struct device *device, const struct kernel *kernel, const void *params, size_t size);

#endif
