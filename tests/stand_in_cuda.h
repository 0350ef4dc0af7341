/* stand_in_cuda: a libcuda.so.1 without a GPU, for tests of what the runtime asks of a driver. It logs every call,
   keeps a driver's rules, and fails any call on demand. A program that links it has already loaded it when the runtime
   opens "libcuda.so.1", so the runtime gets it in place of the real one. Not thread-safe. */
#ifndef STAND_IN_CUDA_H
#define STAND_IN_CUDA_H

#include "cuda_api.h"

enum { STAND_IN_INVALID_VALUE = 1, STAND_IN_INVALID_CONTEXT = 201, STAND_IN_ILLEGAL_ADDRESS = 700 };
enum { STAND_IN_CAPTURE_FORBIDS = 900, STAND_IN_UNKNOWN = 12345 /* has neither a name nor a text */ };

extern struct stand_in {
    /* What it reports about itself. */
    int devices, version, major, minor, multiprocessors, shared_most, l2_bytes;
    float elapsed; /* milliseconds between any two events */
    /* True while a stream of the process is being captured. Then only a thread in relaxed mode may load. */
    bool capturing;
    int refused_attribute, refusal; /* launches with this attribute return this error; 0 = none does */
    size_t params_size;             /* parameter size of the launched kernels; a real driver reads it from the binary */

    /* What it has recorded. */
    int pushed;                       /* contexts pushed and not yet popped */
    int retained;                     /* times the primary context was retained and not yet released */
    int modules, events, allocations; /* created and not yet released */
    int mode;                         /* this thread's capture mode; 0 = global, the initial mode of every thread */
    unsigned char params[8192];       /* of the last launch */
} stand_in;

/* Resets everything: a GPU of compute capability 9.0, no calls, no faults. */
void stand_in_reset(void);

/* Makes the call of this name return `error` and do nothing, from its nth use from now on (1 = the next). */
void stand_in_fail(const char *symbol, int error, int nth);

/* Makes every call that needs the device return `error` from now on, as after a kernel fault. */
void stand_in_break(int error);

/* Returns the calls since stand_in_forget or stand_in_reset, one per line: "cuMemAlloc_v2 bytes=40". Pushing and
   popping contexts and looking up error names are left out. Addresses are offsets into the device's memory, "@256". */
const char *stand_in_calls(void);
void stand_in_forget(void);

/* Returns the start of the device's memory. */
char *stand_in_memory(void);

#endif
