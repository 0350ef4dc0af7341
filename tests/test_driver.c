/* What the cuda device asks of a driver, and how it handles every answer. It runs on stand_in_cuda, so that no GPU is
   needed. test_cuda shows that a real driver accepts it all. */
#include "backend.h"
#include "helper_cubin.h"
#include "plan_text.h"
#include "stand_in_cuda.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct backend_type *const type = &backend_cuda;
static const char *const entries[] = {"first", "second"};
static const char plan_words[] = "launch first 128 4096 len_q\n"
                                 "launch second 64 0 heads\n"
                                 "cluster 2\n"
                                 "workspace 0\n";

static struct backend *backend;
static struct module *module; /* of plan_words; null until loaded */
static struct plan plan;
static struct failure failure;
static void *cubin, *buffer;
static size_t cubin_size;

/* --- what the linker puts in the place of dlopen and dlsym -------------------------------------------------------- */

static const char *hidden = ""; /* a library or a symbol that this machine lacks */

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__real_dlsym(void *library, const char *symbol);
void *__wrap_dlsym(void *library, const char *symbol);

void *__wrap_dlopen(const char *path, int flags) {
    return __real_dlopen(path && strcmp(path, hidden) == 0 ? "/nonexistent/library.so" : path, flags);
}

void *__wrap_dlsym(void *library, const char *symbol) {
    return strcmp(symbol, hidden) == 0 ? NULL : __real_dlsym(library, symbol);
}

/* --- helpers ------------------------------------------------------------------------------------------------------ */

static const char *words(void) { return text_string(&failure.text); }

static enum att_status open_with(struct backend_options options) {
    failure_clear(&failure);
    return type->open(&options, &backend, &failure);
}

static void open_device(void) {
    stand_in_reset();
    stand_in.params_size = sizeof(int);
    cr_assert(plan_read(plan_words, &plan));
    cubin = cubin_make(entries, 2, &cubin_size);
    cr_assert_eq(open_with((struct backend_options){0}), ATT_OK, "%s", words());
    stand_in_forget();
}

/* Whatever happened, the driver holds nothing afterwards. */
static void close_device(void) {
    type->unload(backend, module);
    type->close(backend);
    cr_expect_eq(stand_in.pushed, 0, "%d contexts are still current", stand_in.pushed);
    cr_expect_eq(stand_in.mode, 0, "the thread's capture mode is %d", stand_in.mode);
    cr_expect_eq(stand_in.retained, 0);
    failure_clear(&failure);
    free(cubin);
}

static enum att_status load(void) { return type->load(backend, cubin, cubin_size, &plan, &module, &failure); }

static void load_and_allocate(void) {
    open_device();
    cr_assert_eq(load(), ATT_OK, "%s", words());
    cr_assert_eq(type->alloc(backend, 64, &buffer, &failure), ATT_OK, "%s", words());
    cr_assert_eq(type->timer_start(backend, NULL, &failure), ATT_OK, "%s", words());
    stand_in_forget();
}

static void expect_calls(const char *expected) {
    cr_expect_str_eq(stand_in_calls(), expected);
    stand_in_forget();
}

static void expect_failure(enum att_status found, enum att_status expected, const char *text) {
    cr_expect_eq(found, expected, "%s: status %d, expected %d: %s", text, found, expected, words());
    cr_expect_eq(failure.status, expected, "%s", text);
    cr_expect_str_eq(words(), text);
    failure_clear(&failure);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

Test(driver, is_asked_what_the_gpu_is, .init = open_device, .fini = close_device) {
    struct backend_info info;
    type->describe(backend, &info);
    cr_expect_str_eq(info.device_name, "stand-in GPU 0");
    cr_expect_str_eq(info.arch, "sm_90a");
    cr_expect_str_eq(info.driver, "13.0");
    cr_expect_str_eq(info.compiler, "none: NVRTC was not looked for, or not found");
    cr_expect_eq(info.multiprocessors, 132);
    cr_expect_eq(info.sm_count, 132);
    cr_expect_eq(info.arch_number, 90);
    cr_expect_eq(stand_in.retained, 1, "it shares the primary context");
}

Test(driver, the_target_has_a_suffix_from_9_0_on) {
    static const struct {
        int major, minor;
        const char *arch;
    } cases[] = {{8, 0, "sm_80"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 3, "sm_103a"}, {12, 0, "sm_120a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct backend_info info;
        stand_in_reset();
        stand_in.major = cases[i].major;
        stand_in.minor = cases[i].minor;
        cr_assert_eq(open_with((struct backend_options){0}), ATT_OK, "%s", words());
        type->describe(backend, &info);
        cr_expect_str_eq(info.arch, cases[i].arch);
        cr_expect_eq(info.arch_number, cases[i].major * 10 + cases[i].minor);
        type->close(backend);
    }
}

Test(driver, the_gpu_of_an_ordinal_is_opened) {
    struct backend_info info;
    stand_in_reset();
    stand_in.devices = 3;
    cr_assert_eq(open_with((struct backend_options){.ordinal = 2}), ATT_OK, "%s", words());
    type->describe(backend, &info);
    cr_expect_str_eq(info.device_name, "stand-in GPU 2");
    cr_expect(strstr(stand_in_calls(), "cuDevicePrimaryCtxRetain device=42\n"), "%s", stand_in_calls());
    type->close(backend);
    cr_expect(strstr(stand_in_calls(), "cuDevicePrimaryCtxRelease_v2 device=42\n"), "%s", stand_in_calls());
    for (int ordinal = -1; ordinal <= 3; ordinal += 4) {
        char text[128];
        snprintf(text, sizeof text, "ordinal: there is no GPU number %d; this machine has 3, counted from 0", ordinal);
        expect_failure(open_with((struct backend_options){.ordinal = ordinal}), ATT_INVALID_ARGUMENT, text);
        cr_expect_null(backend);
    }
}

Test(driver, a_refusal_to_open_is_reported) {
    static const struct {
        const char *symbol;
        int error, nth;
        enum att_status status;
        const char *text;
    } cases[] = {{"cuInit", CUDA_NO_DEVICE, 1, ATT_NO_DEVICE,
                  "starting the driver: CUDA_ERROR_NO_DEVICE, CUresult 100 (no CUDA-capable device is detected)"},
                 {"cuDeviceGetCount", STAND_IN_INVALID_VALUE, 1, ATT_NO_DEVICE,
                  "counting GPUs: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)"},
                 {"cuDeviceGet", STAND_IN_INVALID_VALUE, 1, ATT_NO_DEVICE,
                  "asking about the GPU: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)"},
                 {"cuDeviceGetName", STAND_IN_INVALID_VALUE, 1, ATT_NO_DEVICE,
                  "asking about the GPU: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)"},
                 {"cuDeviceGetAttribute", STAND_IN_INVALID_VALUE, 4, ATT_NO_DEVICE,
                  "asking about the GPU: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)"},
                 {"cuDevicePrimaryCtxRetain", STAND_IN_UNKNOWN, 1, ATT_NO_DEVICE,
                  "opening the GPU's primary context: an unknown error, CUresult 12345 (no description)"},
                 {"cuDevicePrimaryCtxRetain", CUDA_OUT_OF_MEMORY, 1, ATT_OUT_OF_MEMORY,
                  "opening the GPU's primary context: CUDA_ERROR_OUT_OF_MEMORY, CUresult 2 (out of memory)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stand_in_reset();
        stand_in_fail(cases[i].symbol, cases[i].error, cases[i].nth);
        expect_failure(open_with((struct backend_options){0}), cases[i].status, cases[i].text);
        cr_expect_null(backend);
        cr_expect_eq(stand_in.retained, 0, "%s", cases[i].symbol);
    }
}

Test(driver, its_version_need_not_be_known) {
    struct backend_info info;
    stand_in_reset();
    stand_in_fail("cuDriverGetVersion", STAND_IN_INVALID_VALUE, 1);
    cr_assert_eq(open_with((struct backend_options){0}), ATT_OK, "%s", words());
    type->describe(backend, &info);
    cr_expect_str_eq(info.driver, "");
    type->close(backend);
}

Test(driver, a_machine_without_one_is_told_what_to_install) {
    hidden = "libcuda.so.1";
    cr_expect_eq(open_with((struct backend_options){0}), ATT_NO_DEVICE);
    cr_expect(strncmp(words(), "no NVIDIA driver: ", 18) == 0, "%s", words());
    cr_expect(strstr(words(), "Install the driver of your GPU, or use the host device"), "%s", words());
    failure_clear(&failure);
}

Test(driver, every_function_that_is_needed_is_missed) {
#define NAME(member, symbol, parameters) #symbol,
    static const char *const needed[] = {CUDA_FUNCTIONS(NAME)}, *const optional[] = {CUDA_OPTIONAL_FUNCTIONS(NAME)};
#undef NAME
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char text[128];
        stand_in_reset();
        hidden = needed[i];
        snprintf(text, sizeof text, "libcuda.so.1 has no %s: a driver for CUDA 12 or newer is needed", needed[i]);
        expect_failure(open_with((struct backend_options){0}), ATT_NO_DEVICE, text);
    }
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        stand_in_reset();
        hidden = optional[i];
        cr_expect_eq(open_with((struct backend_options){0}), ATT_OK, "%s: %s", optional[i], words());
        type->close(backend);
    }
}

Test(driver, closing_gives_everything_back, .init = load_and_allocate) {
    cr_assert_eq(type->flush(backend, NULL, &failure), ATT_OK, "%s", words());
    cr_assert_eq(type->free(backend, buffer, &failure), ATT_OK, "%s", words());
    cr_expect_eq(stand_in.modules, 2, "the kernel's and the one that flushes");
    close_device();
    cr_expect_eq(stand_in.modules, 0);
    cr_expect_eq(stand_in.events, 0);
    cr_expect_eq(stand_in.allocations, 0);
    type->close(NULL);
}

Test(driver, closing_after_it_has_gone_touches_nothing, .init = load_and_allocate) {
    stand_in_fail("cuCtxPushCurrent_v2", CUDA_DEINITIALIZED, 1);
    close_device();
    cr_expect_null(strstr(stand_in_calls(), "cuEventDestroy"), "%s", stand_in_calls());
    cr_expect_null(strstr(stand_in_calls(), "cuModuleUnload"), "%s", stand_in_calls());
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static enum att_status do_alloc(void) {
    void *other = &failure;
    enum att_status status = type->alloc(backend, 100, &other, &failure);
    cr_expect_null(other, "an allocation that failed");
    return status;
}
static enum att_status do_free(void) { return type->free(backend, buffer, &failure); }
static enum att_status do_copy_in(void) { return type->copy_in(backend, buffer, "abc", 4, &failure); }
static enum att_status do_copy_out(void) {
    char bytes[4];
    return type->copy_out(backend, bytes, buffer, sizeof bytes, &failure);
}
static enum att_status do_synchronize(void) { return type->synchronize(backend, &failure); }
static enum att_status do_timer_start(void) { return type->timer_start(backend, NULL, &failure); }
static enum att_status do_timer_stop(void) {
    double seconds;
    return type->timer_stop(backend, NULL, &seconds, &failure);
}
static enum att_status do_flush(void) { return type->flush(backend, NULL, &failure); }
static enum att_status do_prepare(void) { return type->prepare(backend, module, &failure); }
static enum att_status do_launch(void) {
    int params = 7;
    return type->launch(backend, module, 0, 3, &params, sizeof params, NULL, &failure);
}
static enum att_status do_encode_map(void) {
    static _Alignas(MAP_ALIGNMENT) char map[MAP_BYTES];
    const struct map_request request = {
        .data = buffer, .dtype = dtype_bf16, .dim = {8, 1, 1, 1}, .stride = {8, 8, 8}, .box = {8, 1, 1}};
    return type->encode_map(backend, &request, map, &failure);
}
static enum att_status do_load(void) {
    struct module *other = module;
    enum att_status status = type->load(backend, cubin, cubin_size, &plan, &other, &failure);
    cr_expect_null(other, "a module that failed to load");
    return status;
}

/* Operations on a device, a driver call of each, and how its failure is described. */
static const struct {
    enum att_status (*act)(void);
    const char *symbol;
    int nth;
    const char *what;
} acts[] = {
    {do_alloc, "cuMemAlloc_v2", 1, "allocating 100 bytes on the GPU"},
    {do_free, "cuMemFree_v2", 1, "freeing GPU memory"},
    {do_copy_in, "cuMemcpyHtoD_v2", 1, "copying to the GPU"},
    {do_copy_out, "cuMemcpyDtoH_v2", 1, "copying from the GPU"},
    {do_synchronize, "cuCtxSynchronize", 1, "waiting for the GPU (an earlier kernel may have faulted)"},
    {do_timer_start, "cuEventRecord", 1, "starting the timer"},
    {do_timer_stop, "cuEventRecord", 1, "stopping the timer"},
    {do_timer_stop, "cuEventSynchronize", 1, "stopping the timer"},
    {do_timer_stop, "cuEventElapsedTime", 1, "stopping the timer"},
    {do_flush, "cuMemAlloc_v2", 1, "flushing the GPU's caches"},
    {do_flush, "cuMemsetD8Async", 1, "flushing the GPU's caches"},
    {do_flush, "cuModuleLoadData", 1, "flushing the GPU's caches"},
    {do_flush, "cuModuleGetFunction", 1, "flushing the GPU's caches"},
    {do_flush, "cuLaunchKernelEx", 1, "flushing the GPU's caches"},
    {do_prepare, "cuFuncLoad", 1, "loading a kernel onto the GPU"},
    {do_prepare, "cuFuncLoad", 2, "loading a kernel onto the GPU"},
    {do_launch, "cuLaunchKernelEx", 1, "launching a kernel"},
    {do_encode_map, "cuTensorMapEncodeTiled", 1, "describing a tensor to TMA"},
    {do_load, "cuModuleLoadData", 1, "loading a binary onto the GPU"},
    {do_load, "cuModuleGetFunction", 1, "finding kernel 'first' in its binary"},
    {do_load, "cuModuleGetFunction", 2, "finding kernel 'second' in its binary"},
    {do_load, "cuFuncSetAttribute", 1, "giving kernel 'first' 4096 bytes of shared memory"},
};
enum { ACTS = sizeof acts / sizeof *acts };

/* A binary that could not be loaded because of the device is not a bad one. */
static enum att_status of_a_lost_device(int act) {
    return acts[act].act == do_load ? ATT_NO_DEVICE : ATT_LAUNCH_FAILED;
}

/* ... except the flush kernel, which stays for the next time. */
Test(driver, every_refused_call_is_named_and_leaves_nothing, .init = load_and_allocate, .fini = close_device) {
    for (int i = 0; i < ACTS; i++) {
        char text[256];
        int modules = stand_in.modules;
        stand_in_fail(acts[i].symbol, STAND_IN_INVALID_VALUE, acts[i].nth);
        snprintf(text, sizeof text, "%s: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)", acts[i].what);
        expect_failure(acts[i].act(), ATT_LAUNCH_FAILED, text);
        stand_in_fail(acts[i].symbol, CUDA_OUT_OF_MEMORY, acts[i].nth);
        snprintf(text, sizeof text, "%s: CUDA_ERROR_OUT_OF_MEMORY, CUresult 2 (out of memory)", acts[i].what);
        expect_failure(acts[i].act(), ATT_OUT_OF_MEMORY, text);
        stand_in_fail("cuCtxPushCurrent_v2", STAND_IN_INVALID_CONTEXT, 1);
        expect_failure(acts[i].act(), of_a_lost_device(i),
                       "making the GPU's context current: CUDA_ERROR_INVALID_CONTEXT, CUresult 201 (invalid device "
                       "context)");
        cr_expect_eq(stand_in.pushed, 0, "%s: %d contexts are still current", acts[i].symbol, stand_in.pushed);
        cr_expect_eq(stand_in.mode, 0, "%s: the capture mode is %d", acts[i].symbol, stand_in.mode);
        cr_expect_leq(stand_in.modules, modules + (acts[i].act == do_flush), "%s: a module was left", acts[i].symbol);
        stand_in_fail("", 0, 0);
    }
}

Test(driver, after_a_kernels_fault_all_is_refused_and_can_still_be_closed, .init = load_and_allocate,
     .fini = close_device) {
    stand_in_break(STAND_IN_ILLEGAL_ADDRESS);
    for (int i = 0; i < ACTS; i++) {
        cr_expect_eq(acts[i].act(), of_a_lost_device(i), "%s", acts[i].symbol);
        cr_expect(
            strstr(words(), ": CUDA_ERROR_ILLEGAL_ADDRESS, CUresult 700 (an illegal memory access was encountered)"),
            "%s: %s", acts[i].symbol, words());
        cr_expect_eq(stand_in.pushed, 0, "%s: %d contexts are still current", acts[i].symbol, stand_in.pushed);
        cr_expect_eq(stand_in.mode, 0, "%s: the capture mode is %d", acts[i].symbol, stand_in.mode);
        failure_clear(&failure);
    }
}

/* --- modules ------------------------------------------------------------------------------------------------------ */

Test(driver, loads_while_a_capture_goes_on_elsewhere, .init = open_device, .fini = close_device) {
    stand_in.capturing = true;
    cr_assert_eq(load(), ATT_OK, "%s", words());
    expect_calls("cuThreadExchangeStreamCaptureMode mode=2\n"
                 "cuModuleLoadData\n"
                 "cuModuleGetFunction first\n"
                 "cuFuncSetAttribute first attribute=8 value=4096\n"
                 "cuModuleGetFunction second\n"
                 "cuFuncSetAttribute second attribute=8 value=0\n"
                 "cuThreadExchangeStreamCaptureMode mode=0\n");
    cr_assert_eq(do_prepare(), ATT_OK, "%s", words());
    expect_calls("cuThreadExchangeStreamCaptureMode mode=2\n"
                 "cuFuncLoad first\n"
                 "cuFuncLoad second\n"
                 "cuThreadExchangeStreamCaptureMode mode=0\n");
}

Test(driver, prepares_nothing_where_a_driver_loads_at_once) {
    hidden = "cuFuncLoad";
    load_and_allocate();
    cr_expect_eq(do_prepare(), ATT_OK, "%s", words());
    cr_expect_null(strstr(stand_in_calls(), "cuFuncLoad"), "%s", stand_in_calls());
    close_device();
}

Test(driver, refuses_binaries_before_the_driver_sees_them, .init = open_device, .fini = close_device) {
    const struct {
        const char *entry;
        size_t size;
    } cases[] = {{"third", cubin_size}, {"first", cubin_size - 1}, {"first", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(plan.launch[0].entry, sizeof plan.launch[0].entry, "%s", cases[i].entry);
        snprintf(text, sizeof text, "the binary is damaged or holds no kernel '%s'", cases[i].entry);
        expect_failure(type->load(backend, cubin, cases[i].size, &plan, &module, &failure), ATT_LAUNCH_FAILED, text);
        cr_expect_null(module);
    }
    expect_calls("");
}

Test(driver, refuses_blocks_that_want_more_shared_memory_than_there_is, .init = open_device, .fini = close_device) {
    plan.launch[1].shared = stand_in.shared_most;
    cr_assert_eq(load(), ATT_OK, "all there is: %s", words());
    type->unload(backend, module);
    plan.launch[1].shared++;
    expect_failure(load(), ATT_UNSUPPORTED,
                   "kernel 'second' needs 232449 bytes of shared memory for a block; stand-in GPU 0 has 232448");
    cr_expect_eq(stand_in.modules, 0);
}

Test(driver, is_asked_whether_a_stream_is_captured, .init = open_device, .fini = close_device) {
    char stream;
    cr_expect_not(type->capturing(backend, &stream));
    stand_in.capturing = true;
    cr_expect(type->capturing(backend, &stream));
    stand_in_fail("cuStreamIsCapturing", STAND_IN_INVALID_VALUE, 1);
    cr_expect_not(type->capturing(backend, &stream));
    stand_in_fail("cuCtxPushCurrent_v2", CUDA_DEINITIALIZED, 1);
    cr_expect_not(type->capturing(backend, &stream));
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

Test(driver, is_told_the_grid_the_block_and_the_parameters, .init = load_and_allocate, .fini = close_device) {
    int params = 0x12345678;
    void *const stream = (void *)0x5000;
    cr_assert_eq(type->launch(backend, module, 0, INT32_MAX, &params, sizeof params, stream, &failure), ATT_OK);
    expect_calls("cuLaunchKernelEx first grid=2147483647,1,1 block=128,1,1 shared=4096 stream=0x5000 attributes=0\n");
    cr_expect_arr_eq(stand_in.params, &params, sizeof params);
    params++;
    cr_assert_eq(type->launch(backend, module, 1, 6, &params, sizeof params, NULL, &failure), ATT_OK);
    expect_calls("cuLaunchKernelEx second grid=6,1,1 block=64,1,1 shared=0 stream=(nil) attributes=1\n"
                 "    attribute 4: 2,1,1\n");
    cr_expect_arr_eq(stand_in.params, &params, sizeof params);
}

/* The second kernel of plan_words waits for the preceding launch by itself. */
static void open_with_a_dependent(int major, int version) {
    stand_in_reset();
    stand_in.params_size = sizeof(int);
    stand_in.major = major;
    stand_in.version = version;
    cr_assert(plan_read(plan_words, &plan));
    plan.launch[1].dependent = true;
    cubin = cubin_make(entries, 2, &cubin_size);
    cr_assert_eq(open_with((struct backend_options){0}), ATT_OK, "%s", words());
    cr_assert_eq(load(), ATT_OK, "%s", words());
    stand_in_forget();
}

#define SECOND "cuLaunchKernelEx second grid=6,1,1 block=64,1,1 shared=0 stream=(nil) attributes="
static const char plainly[] = SECOND "1\n    attribute 4: 2,1,1\n";
static const char early[] = SECOND "2\n    attribute 4: 2,1,1\n    attribute 6: 1,0,0\n";

static enum att_status launch_second(void) {
    int params = 1;
    return type->launch(backend, module, 1, 6, &params, sizeof params, NULL, &failure);
}

Test(driver, a_kernel_that_waits_by_itself_may_start_early) {
    open_with_a_dependent(9, 12030);
    cr_expect_eq(do_launch(), ATT_OK);
    expect_calls("cuLaunchKernelEx first grid=3,1,1 block=128,1,1 shared=4096 stream=(nil) attributes=0\n");
    stand_in.capturing = true; /* becomes an edge of the graph */
    cr_expect_eq(launch_second(), ATT_OK);
    expect_calls(early);
    close_device();
}

Test(driver, a_kernel_that_starts_early_divides_memory_as_its_neighbour_does) {
    open_with_a_dependent(9, 13000);
    type->unload(backend, module);
    stand_in_fail("cuFuncSetAttribute", STAND_IN_INVALID_VALUE, 3); /* only a hint */
    stand_in_forget();
    cr_assert_eq(load(), ATT_OK, "%s", words());
    cr_expect(strstr(stand_in_calls(), "cuFuncSetAttribute second attribute=9 value=100\n"), "%s", stand_in_calls());
    cr_expect_null(strstr(stand_in_calls(), "cuFuncSetAttribute first attribute=9"), "%s", stand_in_calls());
    close_device();
}

Test(driver, no_kernel_starts_early_where_that_is_not_known) {
    static const struct { int major, version; } cases[] = {{8, 13000}, {9, 12020}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_with_a_dependent(cases[i].major, cases[i].version);
        cr_expect_eq(launch_second(), ATT_OK);
        expect_calls(plainly);
        close_device();
        module = NULL;
    }
}

Test(driver, a_refused_early_start_is_a_plain_launch_and_not_asked_for_again) {
    static const int errors[] = {CUDA_INVALID_VALUE, CUDA_NOT_SUPPORTED};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char both[2 * sizeof early];
        open_with_a_dependent(9, 13000);
        stand_in.refused_attribute = 6;
        stand_in.refusal = errors[i];
        snprintf(both, sizeof both, "%s%s", early, plainly);
        cr_expect_eq(launch_second(), ATT_OK, "%s", words());
        expect_calls(both);
        cr_expect_eq(launch_second(), ATT_OK, "%s", words());
        expect_calls(plainly);
        close_device();
        module = NULL;
    }
}

Test(driver, a_launch_that_fails_for_another_reason_says_so) {
    open_with_a_dependent(9, 13000);
    stand_in_fail("cuLaunchKernelEx", STAND_IN_INVALID_VALUE, 1); /* not even without the attribute */
    expect_failure(launch_second(), ATT_LAUNCH_FAILED,
                   "launching a kernel: CUDA_ERROR_INVALID_VALUE, CUresult 1 (invalid argument)");
    stand_in_fail("cuLaunchKernelEx", STAND_IN_ILLEGAL_ADDRESS, 1);
    stand_in_forget();
    expect_failure(launch_second(), ATT_LAUNCH_FAILED,
                   "launching a kernel: CUDA_ERROR_ILLEGAL_ADDRESS, CUresult 700 (an illegal memory access was "
                   "encountered)");
    expect_calls(SECOND "2\n"); /* not tried twice */
    stand_in_fail("", 0, 0);
    cr_expect_eq(launch_second(), ATT_OK);
    expect_calls(early); /* still allowed */
    close_device();
}

Test(driver, is_told_tensors_in_bytes, .init = load_and_allocate, .fini = close_device) {
    static _Alignas(MAP_ALIGNMENT) char map[MAP_BYTES + 1];
    struct map_request request = {.data = stand_in_memory() + 32,
                                  .dtype = dtype_bf16,
                                  .dim = {64, 100, 4, 2},
                                  .stride = {72, 7200, 28800},
                                  .box = {64, 128, 3}};
    static const char *const heads[] = {[dtype_fp32] = "type=7", [dtype_fp16] = "type=6", [dtype_bf16] = "type=9"};
    static const int types[] = {dtype_fp32, dtype_fp16, dtype_bf16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char expected[300];
        int bytes = types[i] == dtype_fp32 ? 4 : 2;
        request.dtype = types[i];
        cr_assert_eq(type->encode_map(backend, &request, map, &failure), ATT_OK, "%s", words());
        snprintf(expected, sizeof expected,
                 "cuTensorMapEncodeTiled %s rank=4 @32 dims=64,100,4,2 strides=%d,%d,%d box=64,128,3,1 "
                 "steps=1,1,1,1 interleave=0 swizzle=3 l2=2 fill=0\n",
                 heads[types[i]], 72 * bytes, 7200 * bytes, 28800 * bytes);
        expect_calls(expected);
        cr_expect_eq(map[0], (char)(i + 1), "the driver's own bytes");
        cr_expect_eq(map[MAP_BYTES - 1], (char)(i + 1));
    }
}

Test(driver, without_tensor_maps_is_too_old_for_kernels_that_need_them) {
    hidden = "cuTensorMapEncodeTiled";
    open_device();
    expect_failure(do_encode_map(), ATT_UNSUPPORTED,
                   "libcuda.so.1 has no cuTensorMapEncodeTiled: a driver for CUDA 12 or newer is needed");
    close_device();
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

Test(driver, memory_comes_back_as_it_went, .init = open_device, .fini = close_device) {
    static const char sent[] = "attention";
    char received[sizeof sent] = "";
    void *first, *second;
    cr_assert_eq(type->alloc(backend, sizeof sent, &first, &failure), ATT_OK, "%s", words());
    cr_assert_eq(type->alloc(backend, 0, &second, &failure), ATT_OK, "%s", words());
    cr_expect(first && second && first != second, "even an empty allocation has an address of its own");
    cr_assert_eq(type->copy_in(backend, first, sent, sizeof sent, &failure), ATT_OK, "%s", words());
    cr_assert_eq(type->copy_out(backend, received, first, sizeof sent, &failure), ATT_OK, "%s", words());
    cr_expect_str_eq(received, sent);
    cr_assert_eq(type->free(backend, second, &failure), ATT_OK, "%s", words());
    cr_assert_eq(type->free(backend, NULL, &failure), ATT_OK);
    cr_assert_eq(type->synchronize(backend, &failure), ATT_OK, "%s", words());
    expect_calls("cuMemAlloc_v2 bytes=10\n"
                 "cuMemAlloc_v2 bytes=1\n"
                 "cuMemcpyHtoD_v2 @0 bytes=10\n"
                 "cuMemcpyDtoH_v2 @0 bytes=10\n"
                 "cuMemFree_v2 @256\n"
                 "cuCtxSynchronize\n");
    cr_expect_eq(stand_in.allocations, 1);
}

Test(driver, memory_that_is_not_there_is_refused_with_its_size, .init = open_device, .fini = close_device) {
    void *memory = &failure;
    expect_failure(
        type->alloc(backend, (size_t)1 << 50, &memory, &failure), ATT_OUT_OF_MEMORY,
        "allocating 1125899906842624 bytes on the GPU: CUDA_ERROR_OUT_OF_MEMORY, CUresult 2 (out of memory)");
    cr_expect_null(memory);
}

Test(driver, memory_freed_after_it_has_gone_is_free, .init = load_and_allocate, .fini = close_device) {
    stand_in_fail("cuMemFree_v2", CUDA_DEINITIALIZED, 1);
    cr_expect_eq(do_free(), ATT_OK, "%s", words());
}

/* --- time --------------------------------------------------------------------------------------------------------- */

Test(driver, times_between_two_events_of_the_stream, .init = open_device, .fini = close_device) {
    double seconds = 5;
    void *const stream = (void *)0x5000;
    expect_failure(type->timer_stop(backend, stream, &seconds, &failure), ATT_INVALID_ARGUMENT,
                   "the timer was never started");
    cr_expect_eq(seconds, 0);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(type->timer_start(backend, stream, &failure), ATT_OK, "%s", words());
        expect_calls(round ? "cuEventRecord event=0 stream=0x5000\n"
                           : "cuEventCreate flags=0\ncuEventCreate flags=0\ncuEventRecord event=0 stream=0x5000\n");
        cr_assert_eq(type->timer_stop(backend, stream, &seconds, &failure), ATT_OK, "%s", words());
        cr_expect_eq(seconds, 2.5e-3, "%g", seconds);
        expect_calls("cuEventRecord event=1 stream=0x5000\n"
                     "cuEventSynchronize event=1\n"
                     "cuEventElapsedTime from=0 to=1\n");
    }
}

Test(driver, a_timer_without_events_can_be_started_later, .init = open_device, .fini = close_device) {
    for (int nth = 1; nth <= 2; nth++) {
        stand_in_fail("cuEventCreate", CUDA_OUT_OF_MEMORY, nth);
        expect_failure(do_timer_start(), ATT_OUT_OF_MEMORY,
                       "starting the timer: CUDA_ERROR_OUT_OF_MEMORY, CUresult 2 (out of memory)");
    }
    stand_in_fail("", 0, 0);
    cr_expect_eq(do_timer_start(), ATT_OK, "%s", words());
    cr_expect_eq(stand_in.events, 2);
}

Test(driver, flushes_by_reading_four_times_its_cache, .init = open_device, .fini = close_device) {
#define READ "cuLaunchKernelEx attile_read grid=1056,1,1 block=256,1,1 shared=0 stream=(nil) attributes=0\n"
    cr_assert_eq(do_flush(), ATT_OK, "%s", words());
    expect_calls("cuMemAlloc_v2 bytes=209715200\ncuMemsetD8Async @0 byte=0 bytes=209715200 stream=(nil)\n"
                 "cuModuleLoadData\ncuModuleGetFunction attile_read\n" READ);
    cr_assert_eq(do_flush(), ATT_OK, "%s", words());
    expect_calls(READ);
#undef READ
}

Test(driver, flushes_by_writing_where_the_gpu_is_too_old_to_read, .init = open_device, .fini = close_device) {
    stand_in_fail("cuModuleLoadData", CUDA_NO_BINARY_FOR_GPU, 1);
    cr_assert_eq(do_flush(), ATT_OK, "%s", words());
    expect_calls(
        "cuMemAlloc_v2 bytes=209715200\ncuMemsetD8Async @0 byte=0 bytes=209715200 stream=(nil)\ncuModuleLoadData\n");
    cr_assert_eq(do_flush(), ATT_OK, "%s", words());
    expect_calls("cuMemsetD8Async @0 byte=0 bytes=209715200 stream=(nil)\n");
}

Test(driver, flushes_a_cache_of_unknown_size) {
    stand_in_reset();
    stand_in.l2_bytes = 0;
    cr_assert_eq(open_with((struct backend_options){0}), ATT_OK, "%s", words());
    stand_in_forget();
    cr_assert_eq(do_flush(), ATT_OK, "%s", words());
    cr_expect(strstr(stand_in_calls(), "cuMemAlloc_v2 bytes=134217728\n"), "%s", stand_in_calls());
    type->close(backend);
}

Test(driver, clocks_are_those_of_the_same_gpu, .init = open_device, .fini = close_device) {
    int sm = 0, memory = 0;
    type->clocks(backend, &sm, &memory);
    cr_expect_eq(sm, 1980);
    cr_expect_eq(memory, -1, "not known");
    expect_calls("cuDeviceGetPCIBusId device=40\n");
    type->clocks(backend, &sm, &memory);
    expect_calls("");
}

Test(driver, clocks_are_unknown_without_their_library, .init = open_device, .fini = close_device) {
    static const char *const missing[] = {"libnvidia-ml.so.1", "nvmlDeviceGetClockInfo"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        int sm = 0, memory = 0;
        struct backend *other;
        hidden = missing[i];
        cr_assert_eq(type->open(&(struct backend_options){0}, &other, &failure), ATT_OK, "%s", words());
        type->clocks(other, &sm, &memory);
        cr_expect_eq(sm, -1);
        cr_expect_eq(memory, -1);
        type->close(other);
    }
}

Test(driver, nothing_is_counted, .init = open_device, .fini = close_device) {
    struct att_counters counters, none = {0};
    memset(&counters, 1, sizeof counters);
    type->counters(backend, &counters, 1);
    cr_expect_arr_eq(&counters, &none, sizeof none);
}

/* --- only compiling ----------------------------------------------------------------------------------------------- */

Test(driver, a_session_that_only_compiles_never_asks_for_it) {
    struct backend_info info;
    int sm = 0, memory = 0;
    stand_in_reset();
    cr_assert(plan_read(plan_words, &plan));
    cubin = cubin_make(entries, 2, &cubin_size);
    cr_assert_eq(open_with((struct backend_options){.compile_for = "sm_100a"}), ATT_OK, "%s", words());
    type->describe(backend, &info);
    cr_expect_str_eq(info.device_name, "no device, compiling for sm_100a");
    cr_expect_str_eq(info.arch, "sm_100a");
    cr_expect_str_eq(info.driver, "");
    cr_expect_eq(info.arch_number, 100);
    expect_failure(do_load(), ATT_NO_DEVICE, "this session only compiles; it has no GPU");
    expect_failure(do_alloc(), ATT_NO_DEVICE, "this session only compiles; it has no GPU");
    type->clocks(backend, &sm, &memory);
    cr_expect_eq(sm, -1);
    close_device();
    expect_calls("");
}

Test(driver, only_architectures_are_compiled_for) {
    static const char *const cases[] = {"host", "sm_", "sm_900000000000000000000"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "'%s' is no architecture; expected sm_90a or its like", cases[i]);
        expect_failure(open_with((struct backend_options){.compile_for = cases[i]}), ATT_INVALID_ARGUMENT, text);
        cr_expect_null(backend);
    }
}

Test(driver, that_there_is_no_compiler_is_found_once, .init = open_device, .fini = close_device) {
    const struct compile_job job = {.source = "", .name = "empty.cu"};
    struct text identity = {0};
    struct binary binary;
    setenv("ATTILE_NVRTC", "/nonexistent/first.so", 1);
    cr_expect_eq(type->compile(backend, &job, &binary, &failure), ATT_NO_COMPILER);
    cr_expect(strstr(words(), "/nonexistent/first.so"), "%s", words());
    failure_clear(&failure);
    setenv("ATTILE_NVRTC", "/nonexistent/second.so", 1);
    cr_expect_eq(type->identity(backend, NULL, &identity, &failure), ATT_NO_COMPILER);
    cr_expect(strstr(words(), "/nonexistent/first.so"), "%s", words());
    cr_expect_eq(identity.size, 0);
}

Test(driver, the_gpus_own_architecture_is_compiled_for, .init = open_device, .fini = close_device) {
    static const char *const name = "nothing";
    const struct compile_job job = {.source = "extern \"C\" __global__ void nothing() {}",
                                    .name = "nothing.cu",
                                    .entries = &name,
                                    .entry_count = 1};
    struct text identity = {0};
    struct binary binary;
    if (type->identity(backend, NULL, &identity, &failure) == ATT_NO_COMPILER)
        cr_skip_test("no NVRTC: %s", words());
    cr_expect(strstr(text_string(&identity), "sm_90a"), "%s", text_string(&identity));
    text_free(&identity);
    cr_assert_eq(type->identity(backend, "sm_80", &identity, &failure), ATT_OK, "%s", words());
    cr_expect(strstr(text_string(&identity), "sm_80"), "%s", text_string(&identity));
    cr_assert_eq(type->compile(backend, &job, &binary, &failure), ATT_OK, "%s", words());
    cr_assert(plan_read("launch nothing 32 0 1\nworkspace 0\n", &plan));
    cr_expect_eq(type->load(backend, binary.bytes, binary.size, &plan, &module, &failure), ATT_OK, "%s", words());
    struct backend_info info;
    type->describe(backend, &info);
    cr_expect(strstr(info.compiler, "NVRTC"), "%s", info.compiler);
    text_free(&identity);
    binary_free(&binary);
}
