#include "stand_in_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DECLARE(member, symbol, parameters) int symbol parameters;
CUDA_FUNCTIONS(DECLARE)
CUDA_OPTIONAL_FUNCTIONS(DECLARE)
#undef DECLARE

enum { DEVICE = 40, LOG = 1 << 16, NAMES = 64, NAME = 64, UNIT = 256 };
static const size_t memory_size = (size_t)1 << 30; /* reserved; only touched pages take memory */

struct stand_in stand_in;
static struct {
    char log[LOG];
    size_t length;
    char failing[NAME]; /* "" = nothing fails */
    int error, nth, broken;
    char *memory;
    size_t used;
    char functions[NAMES][NAME]; /* a function's handle is its address here */
    int function_count, maps, event_count;
} state;
enum { EVENTS = 8 };
static char context, module, events[EVENTS]; /* handles are their addresses */

/* For programs that find the library through LD_LIBRARY_PATH and do not know its controls. */
__attribute__((constructor)) static void start(void) { stand_in_reset(); }

/* --- control -------------------------------------------------------------------------------------------------- */

void stand_in_reset(void) {
    char *memory = state.memory;
    memset(&state, 0, sizeof state);
    state.memory = memory;
    stand_in = (struct stand_in){.devices = 1,
                                 .version = 13000,
                                 .major = 9,
                                 .minor = 0,
                                 .multiprocessors = 132,
                                 .shared_most = 232448,
                                 .l2_bytes = 50 << 20,
                                 .elapsed = 2.5f};
}

void stand_in_fail(const char *symbol, int error, int nth) {
    snprintf(state.failing, sizeof state.failing, "%s", symbol);
    state.error = error;
    state.nth = nth;
}

void stand_in_break(int error) { state.broken = error; }
const char *stand_in_calls(void) { return state.log; }
void stand_in_forget(void) { state.log[state.length = 0] = '\0'; }

char *stand_in_memory(void) {
    if (!state.memory) {
        state.memory =
            mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (state.memory == MAP_FAILED)
            abort();
    }
    return state.memory;
}

/* --- what all calls do ---------------------------------------------------------------------------------------- */

static void write_down(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    state.length += (size_t)vsnprintf(state.log + state.length, LOG - state.length, format, arguments);
    va_end(arguments);
    if (state.length >= LOG)
        abort();
}

/* Returns the error of this call, which then does nothing; 0 = proceed. */
static int obstacle(const char *symbol) {
    return strcmp(symbol, state.failing) == 0 && --state.nth <= 0 ? state.error : CUDA_OK;
}

/* The same for a call that works on the device. */
static int obstacle_on_device(const char *symbol) {
    int error = obstacle(symbol);
    if (error == CUDA_OK)
        error = state.broken;
    return error == CUDA_OK && stand_in.pushed == 0 ? STAND_IN_INVALID_CONTEXT : error;
}

/* Logs the call, and returns its error if it has one. */
#define BEGIN(check, ...)                                                                                              \
    do {                                                                                                               \
        write_down("%s", __func__);                                                                                    \
        write_down(__VA_ARGS__);                                                                                       \
        write_down("\n");                                                                                              \
        int why = check(__func__);                                                                                     \
        if (why != CUDA_OK)                                                                                            \
            return why;                                                                                                \
    } while (0)

static long long offset(uint64_t address) {
    return address ? (long long)(address - (uint64_t)(uintptr_t)stand_in_memory()) : -1;
}

static bool is_memory(uint64_t address, size_t bytes) {
    long long at = offset(address);
    return at >= 0 && (size_t)at <= state.used && bytes <= state.used - (size_t)at;
}

static bool may_load(void) { return !stand_in.capturing || stand_in.mode == CUDA_CAPTURE_MODE_RELAXED; }

static const char *name_of(const void *function) { return function; }

/* --- the device ----------------------------------------------------------------------------------------------- */

int cuInit(unsigned flags) {
    BEGIN(obstacle, " flags=%u", flags);
    return CUDA_OK;
}

int cuDriverGetVersion(int *version) {
    BEGIN(obstacle, "");
    *version = stand_in.version;
    return CUDA_OK;
}

static const struct {
    int error;
    const char *name, *text;
} errors[] = {{STAND_IN_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
              {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {CUDA_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
              {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
              {STAND_IN_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
              {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
              {CUDA_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
              {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
              {STAND_IN_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
              {STAND_IN_CAPTURE_FORBIDS, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
               "operation not permitted when stream is capturing"}};

static int describe_error(int error, const char **name, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *name = errors[i].name;
            *text = errors[i].text;
            return CUDA_OK;
        }
    return STAND_IN_INVALID_VALUE;
}

int cuGetErrorName(int error, const char **name) {
    const char *text;
    return describe_error(error, name, &text);
}

int cuGetErrorString(int error, const char **text) {
    const char *name;
    return describe_error(error, &name, text);
}

int cuDeviceGetCount(int *count) {
    BEGIN(obstacle, "");
    *count = stand_in.devices;
    return CUDA_OK;
}

int cuDeviceGet(int *device, int ordinal) {
    BEGIN(obstacle, " ordinal=%d", ordinal);
    *device = DEVICE + ordinal; /* a handle, not the ordinal: callers must not confuse them */
    return CUDA_OK;
}

int cuDeviceGetName(char *name, int size, int device) {
    BEGIN(obstacle, " device=%d", device);
    snprintf(name, (size_t)size, "stand-in GPU %d", device - DEVICE);
    return CUDA_OK;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) {
    BEGIN(obstacle, " device=%d", device);
    snprintf(text, (size_t)size, "0000:%02x:00.0", (unsigned)device);
    return CUDA_OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    const struct {
        int attribute, value;
    } known[] = {{CUDA_MULTIPROCESSORS, stand_in.multiprocessors},
                 {CUDA_CAPABILITY_MAJOR, stand_in.major},
                 {CUDA_CAPABILITY_MINOR, stand_in.minor},
                 {CUDA_SHARED_OPT_IN, stand_in.shared_most},
                 {CUDA_L2_BYTES, stand_in.l2_bytes}};
    BEGIN(obstacle, " attribute=%d device=%d", attribute, device);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return CUDA_OK;
        }
    return STAND_IN_INVALID_VALUE;
}

/* --- contexts ------------------------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(void **result, int device) {
    BEGIN(obstacle, " device=%d", device);
    stand_in.retained++;
    *result = &context;
    return CUDA_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN(obstacle, " device=%d", device);
    stand_in.retained--;
    return CUDA_OK;
}

int cuCtxPushCurrent_v2(void *pushed) {
    int error = obstacle(__func__);
    if (error == CUDA_OK && pushed != &context)
        error = STAND_IN_INVALID_CONTEXT;
    stand_in.pushed += error == CUDA_OK;
    return error;
}

int cuCtxPopCurrent_v2(void **popped) {
    if (stand_in.pushed == 0)
        return STAND_IN_INVALID_CONTEXT;
    stand_in.pushed--;
    *popped = &context;
    return CUDA_OK;
}

int cuCtxSynchronize(void) {
    BEGIN(obstacle_on_device, "");
    return CUDA_OK;
}

/* --- modules -------------------------------------------------------------------------------------------------- */

int cuModuleLoadData(void **result, const void *image) {
    BEGIN(obstacle_on_device, "");
    if (!may_load())
        return STAND_IN_CAPTURE_FORBIDS;
    if (memcmp(image, "\177ELF", 4) != 0 && memcmp(image, ".version ", 9) != 0)
        return CUDA_INVALID_IMAGE;
    stand_in.modules++;
    *result = &module;
    return CUDA_OK;
}

int cuModuleUnload(void *unloaded) {
    BEGIN(obstacle_on_device, "");
    if (unloaded != &module)
        return STAND_IN_INVALID_VALUE;
    stand_in.modules--;
    return CUDA_OK;
}

int cuModuleGetFunction(void **function, void *from, const char *name) {
    BEGIN(obstacle_on_device, " %s", name);
    if (from != &module || state.function_count == NAMES)
        return STAND_IN_INVALID_VALUE;
    *function = state.functions[state.function_count++];
    snprintf(*function, NAME, "%s", name);
    return CUDA_OK;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
    BEGIN(obstacle_on_device, " %s attribute=%d value=%d", name_of(function), attribute, value);
    return CUDA_OK;
}

int cuFuncLoad(void *function) {
    BEGIN(obstacle_on_device, " %s", name_of(function));
    return may_load() ? CUDA_OK : STAND_IN_CAPTURE_FORBIDS;
}

int cuLaunchKernelEx(const struct cuda_launch *launch, void *function, void **params, void **extra) {
    BEGIN(obstacle_on_device, " %s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p attributes=%u%s", name_of(function),
          launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
          launch->shared, launch->stream, launch->count, extra ? " extra" : "");
    for (unsigned i = 0; i < launch->count; i++) {
        const struct cuda_launch_attribute *attribute = &launch->attributes[i];
        write_down("    attribute %d: %u,%u,%u\n", attribute->id, attribute->value[0], attribute->value[1],
                   attribute->value[2]);
    }
    for (unsigned i = 0; i < launch->count; i++)
        if (stand_in.refused_attribute && launch->attributes[i].id == stand_in.refused_attribute)
            return stand_in.refusal;
    memcpy(stand_in.params, params[0], stand_in.params_size);
    return CUDA_OK;
}

/* --- capture -------------------------------------------------------------------------------------------------- */

int cuStreamIsCapturing(void *stream, int *status) {
    BEGIN(obstacle_on_device, " stream=%p", stream);
    *status = stand_in.capturing ? 1 : CUDA_CAPTURE_NONE;
    return CUDA_OK;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = stand_in.mode;
    BEGIN(obstacle, " mode=%d", *mode);
    stand_in.mode = *mode;
    *mode = before;
    return CUDA_OK;
}

/* --- memory --------------------------------------------------------------------------------------------------- */

int cuMemAlloc_v2(uint64_t *device, size_t bytes) {
    BEGIN(obstacle_on_device, " bytes=%zu", bytes);
    if (bytes == 0)
        return STAND_IN_INVALID_VALUE;
    if (bytes > memory_size - state.used - UNIT)
        return CUDA_OUT_OF_MEMORY;
    *device = (uint64_t)(uintptr_t)(stand_in_memory() + state.used);
    state.used += (bytes + UNIT - 1) / UNIT * UNIT;
    stand_in.allocations++;
    return CUDA_OK;
}

int cuMemFree_v2(uint64_t device) {
    BEGIN(obstacle_on_device, " @%lld", offset(device));
    if (!is_memory(device, 1))
        return STAND_IN_INVALID_VALUE;
    stand_in.allocations--;
    return CUDA_OK;
}

int cuMemsetD8Async(uint64_t device, unsigned char byte, size_t bytes, void *stream) {
    BEGIN(obstacle_on_device, " @%lld byte=%d bytes=%zu stream=%p", offset(device), byte, bytes, stream);
    return is_memory(device, bytes) ? CUDA_OK : STAND_IN_INVALID_VALUE; /* nobody reads the written data */
}

int cuMemcpyHtoD_v2(uint64_t device, const void *host, size_t bytes) {
    BEGIN(obstacle_on_device, " @%lld bytes=%zu", offset(device), bytes);
    if (!is_memory(device, bytes))
        return STAND_IN_INVALID_VALUE;
    memcpy((void *)(uintptr_t)device, host, bytes);
    return CUDA_OK;
}

int cuMemcpyDtoH_v2(void *host, uint64_t device, size_t bytes) {
    BEGIN(obstacle_on_device, " @%lld bytes=%zu", offset(device), bytes);
    if (!is_memory(device, bytes))
        return STAND_IN_INVALID_VALUE;
    memcpy(host, (void *)(uintptr_t)device, bytes);
    return CUDA_OK;
}

/* The map contains its own number: 1 in every byte for the first. */
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                           int swizzle, int l2_promotion, int fill) {
    BEGIN(obstacle_on_device,
          " type=%d rank=%u @%lld dims=%d,%d,%d,%d strides=%d,%d,%d box=%u,%u,%u,%u steps=%u,%u,%u,%u "
          "interleave=%d swizzle=%d l2=%d fill=%d",
          type, rank, offset((uint64_t)(uintptr_t)address), (int)dims[0], (int)dims[1], (int)dims[2], (int)dims[3],
          (int)strides[0], (int)strides[1], (int)strides[2], box[0], box[1], box[2], box[3], steps[0], steps[1],
          steps[2], steps[3], interleave, swizzle, l2_promotion, fill);
    if ((uintptr_t)map % 64)
        return STAND_IN_INVALID_VALUE;
    memset(map, ++state.maps, 128);
    return CUDA_OK;
}

/* --- events --------------------------------------------------------------------------------------------------- */

/* Returns the event's number, from 0; -1 = not an event. */
static int event_number(const void *event) {
    for (int i = 0; i < state.event_count; i++)
        if (event == &events[i])
            return i;
    return -1;
}

int cuEventCreate(void **event, unsigned flags) {
    BEGIN(obstacle_on_device, " flags=%u", flags);
    if (state.event_count == EVENTS)
        return CUDA_OUT_OF_MEMORY;
    stand_in.events++;
    *event = &events[state.event_count++];
    return CUDA_OK;
}

int cuEventDestroy_v2(void *event) {
    BEGIN(obstacle_on_device, " event=%d", event_number(event));
    stand_in.events--;
    return CUDA_OK;
}

int cuEventRecord(void *event, void *stream) {
    BEGIN(obstacle_on_device, " event=%d stream=%p", event_number(event), stream);
    return CUDA_OK;
}

int cuEventSynchronize(void *event) {
    BEGIN(obstacle_on_device, " event=%d", event_number(event));
    return CUDA_OK;
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    BEGIN(obstacle_on_device, " from=%d to=%d", event_number(start), event_number(end));
    *milliseconds = stand_in.elapsed;
    return CUDA_OK;
}
