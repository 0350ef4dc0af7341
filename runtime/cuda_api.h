/* cuda_api: the driver functions that attile calls, looked up in libcuda at run time. The declarations are our own, so
   that everything builds and starts on a machine without CUDA; they rely on the driver's ABI, which never changes. */
#ifndef ATTILE_CUDA_API_H
#define ATTILE_CUDA_API_H

#include "failure.h"

#include <stdint.h>

enum { /* CUresult values that we distinguish */
       CUDA_OK = 0,
       CUDA_INVALID_VALUE = 1,
       CUDA_OUT_OF_MEMORY = 2,
       CUDA_DEINITIALIZED = 4,
       CUDA_NO_DEVICE = 100,
       CUDA_INVALID_IMAGE = 200,
       CUDA_NO_BINARY_FOR_GPU = 209,
       CUDA_INVALID_PTX = 218,
       CUDA_UNSUPPORTED_PTX = 222,
       CUDA_INVALID_SOURCE = 300,
       CUDA_NOT_FOUND = 500,
       CUDA_NOT_SUPPORTED = 801
};
enum { /* CUdevice_attribute */
       CUDA_MULTIPROCESSORS = 16,
       CUDA_L2_BYTES = 38,
       CUDA_CAPABILITY_MAJOR = 75,
       CUDA_CAPABILITY_MINOR = 76,
       CUDA_SHARED_OPT_IN = 97
};
enum { CUDA_TYPE_FP16 = 6, CUDA_TYPE_FP32 = 7, CUDA_TYPE_BF16 = 9 };                        /* CUtensorMapDataType */
enum { CUDA_INTERLEAVE_NONE, CUDA_SWIZZLE_128B = 3, CUDA_L2_128B = 2, CUDA_FILL_ZERO = 0 }; /* CUtensorMap... */
enum { CUDA_MAX_DYNAMIC_SHARED = 8, CUDA_SHARED_CARVEOUT = 9 };                             /* CUfunction_attribute */
enum { CUDA_CAPTURE_NONE = 0, CUDA_CAPTURE_MODE_RELAXED = 2 }; /* CUstreamCaptureStatus, CUstreamCaptureMode */

/* CUlaunchConfig with CUlaunchAttribute. */
struct cuda_launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct cuda_launch_attribute {
        _Alignas(8) int id;
        _Alignas(8) unsigned value[16];
    } * attributes;
    unsigned count;
};
enum { CUDA_CLUSTER_DIMENSION = 4, CUDA_PROGRAMMATIC_SERIALIZATION = 6 }; /* CUlaunchAttributeID */
_Static_assert(sizeof(struct cuda_launch_attribute) == 72, "as in the driver's ABI");

/* FUNCTION(member, symbol, parameters): every one returns a CUresult. */
#define CUDA_FUNCTIONS(FUNCTION)                                                                                       \
    FUNCTION(init, cuInit, (unsigned flags))                                                                           \
    FUNCTION(driver_version, cuDriverGetVersion, (int *version))                                                       \
    FUNCTION(error_name, cuGetErrorName, (int error, const char **name))                                               \
    FUNCTION(error_string, cuGetErrorString, (int error, const char **text))                                           \
    FUNCTION(device_count, cuDeviceGetCount, (int *count))                                                             \
    FUNCTION(device_get, cuDeviceGet, (int *device, int ordinal))                                                      \
    FUNCTION(device_name, cuDeviceGetName, (char *name, int size, int device))                                         \
    FUNCTION(device_bus, cuDeviceGetPCIBusId, (char *text, int size, int device))                                      \
    FUNCTION(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                          \
    FUNCTION(primary_retain, cuDevicePrimaryCtxRetain, (void **context, int device))                                   \
    FUNCTION(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                              \
    FUNCTION(push, cuCtxPushCurrent_v2, (void *context))                                                               \
    FUNCTION(pop, cuCtxPopCurrent_v2, (void **context))                                                                \
    FUNCTION(context_synchronize, cuCtxSynchronize, (void))                                                            \
    FUNCTION(module_load, cuModuleLoadData, (void **module, const void *image))                                        \
    FUNCTION(module_unload, cuModuleUnload, (void *module))                                                            \
    FUNCTION(module_function, cuModuleGetFunction, (void **function, void *module, const char *name))                  \
    FUNCTION(function_set, cuFuncSetAttribute, (void *function, int attribute, int value))                             \
    FUNCTION(launch, cuLaunchKernelEx,                                                                                 \
             (const struct cuda_launch *launch, void *function, void **params, void **extra))                          \
    FUNCTION(stream_capturing, cuStreamIsCapturing, (void *stream, int *status))                                       \
    FUNCTION(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                             \
    FUNCTION(alloc, cuMemAlloc_v2, (uint64_t * device, size_t bytes))                                                  \
    FUNCTION(free, cuMemFree_v2, (uint64_t device))                                                                    \
    FUNCTION(fill, cuMemsetD8Async, (uint64_t device, unsigned char byte, size_t bytes, void *stream))                 \
    FUNCTION(copy_in, cuMemcpyHtoD_v2, (uint64_t device, const void *host, size_t bytes))                              \
    FUNCTION(copy_out, cuMemcpyDtoH_v2, (void *host, uint64_t device, size_t bytes))                                   \
    FUNCTION(event_create, cuEventCreate, (void **event, unsigned flags))                                              \
    FUNCTION(event_destroy, cuEventDestroy_v2, (void *event))                                                          \
    FUNCTION(event_record, cuEventRecord, (void *event, void *stream))                                                 \
    FUNCTION(event_synchronize, cuEventSynchronize, (void *event))                                                     \
    FUNCTION(event_elapsed, cuEventElapsedTime, (float *milliseconds, void *start, void *end))

/* Missing in some drivers; null if missing. */
#define CUDA_OPTIONAL_FUNCTIONS(FUNCTION)                                                                              \
    FUNCTION(function_load, cuFuncLoad, (void *function)) /* 12.4 */                                                   \
    FUNCTION(encode_tiled, cuTensorMapEncodeTiled,        /* 12.0 */                                                   \
             (void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,        \
              const unsigned *box, const unsigned *steps, int interleave, int swizzle, int l2_promotion, int fill))

struct cuda_api {
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    CUDA_FUNCTIONS(MEMBER)
    CUDA_OPTIONAL_FUNCTIONS(MEMBER)
#undef MEMBER
    void *library; /* never closed: the driver keeps threads of its own */
};

/* Opens libcuda and calls cuInit. ATT_NO_DEVICE if there is no driver, or one without a device. Environment: none. */
enum att_status cuda_api_open(struct cuda_api *api, struct failure *failure);

/* Sets the failure of a driver call: "WHAT: CUDA_ERROR_... (its text)". Out of memory becomes ATT_OUT_OF_MEMORY,
   everything else `status`. */
enum att_status cuda_api_failure(const struct cuda_api *api, int error, enum att_status status, struct failure *failure,
                                 const char *what);

/* Classifies a failure to load a binary: ATT_LAUNCH_FAILED = the binary is at fault, ATT_NO_DEVICE = the GPU or this
   process is, for example an earlier fault in the context. */
enum att_status cuda_api_load_status(int error);

#endif
