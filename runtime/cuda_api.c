#include "cuda_api.h"

#include <dlfcn.h>
#include <string.h>

static bool find(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from data to function pointers */
    return address != NULL;
}

enum att_status cuda_api_open(struct cuda_api *api, struct failure *failure) {
    *api = (struct cuda_api){0};
    api->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!api->library)
        return failure_set(failure, ATT_NO_DEVICE,
                           "no NVIDIA driver: %s. Install the driver of your GPU, or use the host device", dlerror());
#define FIND(member, symbol, parameters)                                                                               \
    if (!find(api->library, #symbol, &api->member))                                                                    \
        return failure_set(failure, ATT_NO_DEVICE,                                                                     \
                           "libcuda.so.1 has no " #symbol ": a driver for CUDA 12 or newer is needed");
    CUDA_FUNCTIONS(FIND)
#undef FIND
#define FIND(member, symbol, parameters) find(api->library, #symbol, &api->member);
    CUDA_OPTIONAL_FUNCTIONS(FIND)
#undef FIND
    int error = api->init(0);
    return error == CUDA_OK ? ATT_OK : cuda_api_failure(api, error, ATT_NO_DEVICE, failure, "starting the driver");
}

enum att_status cuda_api_failure(const struct cuda_api *api, int error, enum att_status status, struct failure *failure,
                                 const char *what) {
    const char *name = NULL, *text = NULL;
    if (api->error_name(error, &name) != CUDA_OK || !name)
        name = "an unknown error";
    if (api->error_string(error, &text) != CUDA_OK || !text)
        text = "no description";
    return failure_set(failure, error == CUDA_OUT_OF_MEMORY ? ATT_OUT_OF_MEMORY : status, "%s: %s, CUresult %d (%s)",
                       what, name, error, text);
}

enum att_status cuda_api_load_status(int error) {
    static const int of_binaries[] = {CUDA_INVALID_VALUE, CUDA_INVALID_IMAGE,   CUDA_NO_BINARY_FOR_GPU,
                                      CUDA_INVALID_PTX,   CUDA_UNSUPPORTED_PTX, CUDA_INVALID_SOURCE,
                                      CUDA_NOT_FOUND};
    for (size_t i = 0; i < sizeof of_binaries / sizeof *of_binaries; i++)
        if (error == of_binaries[i])
            return ATT_LAUNCH_FAILED;
    return ATT_NO_DEVICE;
}
