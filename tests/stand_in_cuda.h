/* stand_in_cuda: a libcuda.so.1 with no GPU behind it, for tests of what the runtime asks of a driver. It writes every call
   down, keeps the rules a driver keeps, and fails any call on demand. A program that links it has it loaded already
   when the runtime opens "libcuda.so.1", and so gets it in place of the real one. For one thread. */
#ifndef STAND_IN_CUDA_H
#define STAND_IN_CUDA_H

#include "cuda_api.h"

enum { STAND_IN_INVALID_VALUE = 1, STAND_IN_INVALID_CONTEXT = 201, STAND_IN_ILLEGAL_ADDRESS = 700 };
enum { STAND_IN_CAPTURE_FORBIDS = 900, STAND_IN_UNKNOWN = 12345 /* has neither a name nor a text */ };

extern struct stand_in {
    /* What it says of itself. */
    int devices, version, major, minor, multiprocessors, shared_most, l2_bytes;
    float elapsed; /* milliseconds between any two events */
    /* Is a stream of the process being captured? Then only a thread in relaxed mode may load. */
    bool capturing;
    int refused_attribute, refusal; /* launches with this attribute return this error; 0 = none does */
    size_t params_size;             /* of the kernels launched; a real driver reads it from the binary */

    /* What it has seen. */
    int pushed;                       /* contexts pushed and not popped */
    int retained;                     /* the primary context, retained and not released */
    int modules, events, allocations; /* made and not given back */
    int mode;                         /* how this thread takes captures: 0 = global, as every thread begins */
    unsigned char params[8192];       /* of the last launch */
} stand_in;

/* Forget all: a GPU of compute capability 9.0, no call, no fault. */
void stand_in_reset(void);

/* The call of this name returns `error` and does nothing, the nth time from now (1 = the next) and ever after. */
void stand_in_fail(const char *symbol, int error, int nth);

/* Every call that needs the device returns `error` from now on, as after a kernel has faulted. */
void stand_in_break(int error);

/* The calls since stand_in_forget or stand_in_reset, one a line: "cuMemAlloc_v2 bytes=40". Pushing and popping contexts and
   asking for names of errors is left out; addresses are offsets into the device's memory, "@256". */
const char *stand_in_calls(void);
void stand_in_forget(void);

/* Where the device's memory begins. */
char *stand_in_memory(void);

#endif
