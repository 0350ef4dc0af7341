/* backend: the operations that a device must provide. Two backends exist: backend_cuda.c (driver API and NVRTC, opened
   at run time) and backend_host.c (C++ compiler and fibers on this CPU). No caller knows which one it has. All
   functions may be called from several threads at once unless stated otherwise. */
#ifndef ATTILE_BACKEND_H
#define ATTILE_BACKEND_H

#include "failure.h"
#include "plan.h"

#include <stdint.h>

struct backend; /* one open device */
struct module;  /* one loaded binary */

/* The result of compiling one source. */
struct binary {
    void *bytes; /* owned: a cubin, PTX, or a shared object */
    size_t size;
    int registers;    /* maximum over all entries; -1 = not known */
    int spill_bytes;  /* -1 = not known */
    int instructions; /* of all entries; -1 = not known */
    struct text log;  /* compiler output, also on success */
    bool refused;     /* with ATT_COMPILE_FAILED: it compiles, but its log rules it out for good */
};
void binary_free(struct binary *binary);

struct backend_options {
    int ordinal;
    enum att_host_mode host_mode;
    uint64_t host_seed;
    const char *compile_for; /* "sm_90a": open the compiler and no device; null = open the device. For cuda */
};

struct backend_info {
    const char *device_name, *arch;
    const char *built_for; /* `arch` of its binaries in a bundle; on the host with the mode */
    const char *compiler;  /* as far as it is known; `identity` makes the device look for it */
    const char *driver;    /* "13.0"; "" without one */
    int multiprocessors;   /* of a CPU: its threads */
    int sm_count;          /* SM count used in plans; seldom as large on the host */
    int arch_number;       /* 90 for sm_90a; 0 on the host */
};

struct compile_job {
    const char *source; /* the emitted CUDA text, NUL-terminated */
    const char *name;   /* file name for the compiler's messages */
    const char *arch;   /* "sm_90a"; null = the open device's own. On the host, non-null = any CPU of this kind */
    const char *const *entries; /* names of the __global__ functions, `entry_count` of them */
    int entry_count;
};

/* A tensor that kernels copy in boxes: four dimensions in the kernel's order, the first contiguous. */
struct map_request {
    const void *data;  /* 16-byte aligned; null only if no kernel reads it */
    int dtype;         /* dtype_fp32, dtype_fp16, dtype_bf16 */
    int64_t dim[4];    /* elements, at least 1 each */
    int64_t stride[3]; /* of dim[1] .. dim[3], in elements; a multiple of 16 bytes, below 2^40 bytes */
    int box[3];        /* of dim[0] .. dim[2], 1 of dim[3]; box[0] elements are at most 128 bytes */
};
enum { MAP_BYTES = 128, MAP_ALIGNMENT = 64 };

struct backend_type {
    const char *name; /* "cuda", "host" */

    /* Opens the device. A missing compiler is not an error here: cached kernels still run. */
    enum att_status (*open)(const struct backend_options *options, struct backend **backend, struct failure *failure);
    void (*close)(struct backend *backend); /* accepts null */
    void (*describe)(const struct backend *backend, struct backend_info *info);

    /* Writes everything besides the source that determines the bytes of a binary (compiler identity, options, arch), as
       "name: value\n" lines without paths; it becomes part of the cache key. ATT_NO_COMPILER if there is none. */
    enum att_status (*identity)(struct backend *backend, const char *arch, struct text *text, struct failure *failure);

    /* Writes what determines which compiler `identity` would open, without opening it; equal texts mean the same
       compiler. False, or a null function: asking is as expensive as opening it, or it is already open. */
    bool (*search)(struct backend *backend, struct text *text);

    enum att_status (*compile)(struct backend *backend, const struct compile_job *job, struct binary *binary,
                               struct failure *failure);

    /* Loads a binary made by `compile`, perhaps by another process. ATT_LAUNCH_FAILED if the bytes are at fault: the
       caller then drops them from the cache and compiles again. Any other failure does not implicate the bytes. `bytes`
       need not outlive the call. */
    enum att_status (*load)(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                            struct module **module, struct failure *failure);
    void (*unload)(struct backend *backend, struct module *module); /* accepts null */

    /* Does now what the driver would defer to the first launch. Null = nothing is deferred. */
    enum att_status (*prepare)(struct backend *backend, struct module *module, struct failure *failure);
    bool (*capturing)(struct backend *backend, void *stream); /* is the stream being captured? Null = never */

    /* Encodes a tensor map for TMA: MAP_BYTES bytes at `map`, aligned to MAP_ALIGNMENT. Never allocates, locks or
       accesses the tensor. */
    enum att_status (*encode_map)(struct backend *backend, const struct map_request *request, void *map,
                                  struct failure *failure);

    /* Starts entry `launch` of the plan with `grid` blocks. Copies `params` (params_size bytes) before it returns. On
       cuda it never allocates, locks or synchronises; on the host it returns when the kernel has ended. */
    enum att_status (*launch)(struct backend *backend, struct module *module, int launch, int64_t grid,
                              const void *params, size_t params_size, void *stream, struct failure *failure);

    enum att_status (*alloc)(struct backend *backend, size_t bytes, void **device, struct failure *failure);
    enum att_status (*free)(struct backend *backend, void *device, struct failure *failure);
    enum att_status (*copy_in)(struct backend *backend, void *device, const void *host, size_t bytes, struct failure *);
    enum att_status (*copy_out)(struct backend *backend, void *host, const void *device, size_t bytes,
                                struct failure *);
    enum att_status (*synchronize)(struct backend *backend, struct failure *failure);

    /* Measure the time between the two calls on a stream, with device events (host: the clock). timer_stop waits for
       the work. One timer per device; for one thread at a time. */
    enum att_status (*timer_start)(struct backend *backend, void *stream, struct failure *failure);
    enum att_status (*timer_stop)(struct backend *backend, void *stream, double *seconds, struct failure *failure);

    /* Evicts the data of all earlier work from the device's caches, in stream order, without waiting. Null = no such
       caches. */
    enum att_status (*flush)(struct backend *backend, void *stream, struct failure *failure);
    /* Reads the current clocks of multiprocessors and memory; -1 = not known. Null = never known. */
    void (*clocks)(struct backend *backend, int *sm_mhz, int *memory_mhz);

    void (*counters)(struct backend *backend, struct att_counters *counters, int reset);
};

extern const struct backend_type backend_cuda, backend_host;

#endif
