#include "helper_driver.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

int driver_call(const char *symbol, void *a, void *b, void *c) {
    int (*function)(void *, void *, void *);
    void *address = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), symbol);
    cr_assert_not_null(address, "%s", symbol);
    memcpy(&function, &address, sizeof address);
    return function(a, b, c);
}

static void succeed(const char *symbol, void *a, void *b, void *c) {
    int error = driver_call(symbol, a, b, c);
    cr_assert_eq(error, 0, "%s: CUresult %d", symbol, error);
}

static void *integer(intptr_t value) { return (void *)value; }

void *driver_stream(void) {
    enum { DEVICE = 0, NON_BLOCKING = 1 };
    void *context = NULL, *stream = NULL;
    succeed("cuDevicePrimaryCtxRetain", &context, integer(DEVICE), NULL);
    succeed("cuCtxPushCurrent_v2", context, NULL, NULL);
    succeed("cuStreamCreate", &stream, integer(NON_BLOCKING), NULL);
    return stream;
}

void driver_capture_begin(void *stream, bool relaxed) {
    enum { GLOBAL = 0, RELAXED = 2 };
    succeed("cuStreamBeginCapture_v2", stream, integer(relaxed ? RELAXED : GLOBAL), NULL);
}

void *driver_capture_end(void *stream) {
    void *graph = NULL, *executable = NULL;
    succeed("cuStreamEndCapture", stream, &graph, NULL);
    succeed("cuGraphInstantiateWithFlags", &executable, graph, NULL);
    return executable;
}

void driver_graph_launch(void *graph, void *stream) { succeed("cuGraphLaunch", graph, stream, NULL); }
