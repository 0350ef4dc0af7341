#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_OK = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*clock)(void *device, int kind, unsigned *mhz);
    void *library, *device;
};

static int find(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

struct nvml *nvml_open(const char *bus) {
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml)
        return NULL;
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library && find(nvml->library, "nvmlInit_v2", &nvml->init) &&
        find(nvml->library, "nvmlShutdown", &nvml->shutdown) &&
        find(nvml->library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->by_bus) &&
        find(nvml->library, "nvmlDeviceGetClockInfo", &nvml->clock) && nvml->init() == NVML_OK) {
        if (nvml->by_bus(bus, &nvml->device) == NVML_OK)
            return nvml;
        nvml->shutdown();
    }
    free(nvml); /* the library stays loaded: the driver keeps threads of its own */
    return NULL;
}

void nvml_close(struct nvml *nvml) {
    if (!nvml)
        return;
    nvml->shutdown();
    free(nvml);
}

static int clock_of(const struct nvml *nvml, int kind) {
    unsigned mhz = 0;
    return nvml->clock(nvml->device, kind, &mhz) == NVML_OK ? (int)mhz : -1;
}

void nvml_clocks(const struct nvml *nvml, int *sm_mhz, int *memory_mhz) {
    *sm_mhz = clock_of(nvml, NVML_CLOCK_SM);
    *memory_mhz = clock_of(nvml, NVML_CLOCK_MEMORY);
}
