/* A session on the stand-in driver: from a bundle's kernel to the bytes that a launch passes. */
#include "gen.h"
#include "helper_cubin.h"
#include "params_layout.h"
#include "plan_text.h"
#include "session.h"
#include "stand_in_cuda.h"
#include "tensor_maps.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, KV = 2, LQ = 200, LK = 333, D = 64 };
#define PROBLEM  "family=attention_forward dtype=bf16 head_dim=64 mask=none target=sm_90a"
#define SCHEDULE "algorithm=flash_async block_m=128 block_n=64 stages=2 overlap=intra_warpgroup store=tma"

static struct att_bundle_kernel bundled;
static struct text variant_text, plan_text;
static struct plan plan;
static void *cubin;
static att_session *session;
static att_kernel *kernel;

static struct sent { /* log of a session */
    struct text text;
} logged;

static void log_message(void *context, enum att_log_level level, const char *message) {
    (void)level;
    text_print(&((struct sent *)context)->text, "%s\n", message);
}

/* Makes the one kernel as `attile build` writes it, except for the binary. */
static void make_bundle_of(const char *words) {
    const struct input input = {"<problem>", words, strlen(words)};
    struct knobs knobs = knobs_default();
    struct variant variant;
    struct source source = {0};
    struct diag diag = {0};
    const char *entries[PLAN_LAUNCHES];
    unsigned groups = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert(set && knobs_parse(&input, groups, &knobs, &diag), "%s", text_string(&diag.text));
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_assert(source_expand(set, &variant, "<problem>", &source, &diag), "%s", text_string(&diag.text));
    plan = source.plan;
    for (int i = 0; i < plan.launches; i++)
        entries[i] = plan.launch[i].entry;
    variant_print(&variant, &variant_text);
    plan_write(&plan, &plan_text);
    bundled = (struct att_bundle_kernel){.name = "bundled",
                                         .variant = text_string(&variant_text),
                                         .arch = "sm_90a",
                                         .plan = text_string(&plan_text),
                                         .registers = 40};
    bundled.binary = cubin = cubin_make(entries, plan.launches, &bundled.size);
    source_free(&source);
    template_set_close(set);
}

static void make_bundle(void) { make_bundle_of(PROBLEM " " SCHEDULE); }

static void open_session(void) {
    static char layout[PARAMS_LAYOUT];
    static struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 1, &bundled, layout};
    static const struct att_bundle *const bundles[] = {&bundle, NULL};
    const struct att_options options = {.size = sizeof options,
                                        .device = ATT_DEVICE_CUDA,
                                        .no_disk_cache = 1,
                                        .bundles = bundles,
                                        .log = log_message,
                                        .log_context = &logged};
    setenv("ATTILE_NVRTC", "/nonexistent/libnvrtc.so", 1);
    stand_in_reset();
    make_bundle();
    cr_assert(params_layout(embedded_templates, layout));
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
}

static void find_kernel(void) {
    open_session();
    cr_assert_eq(att_find(session, PROBLEM, SCHEDULE, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect_str_eq(att_kernel_name(kernel), "bundled");
    stand_in.params_size = mapped_params_size(&plan, sizeof(struct attention_params));
}

static void close_session(void) {
    att_close(session);
    cr_expect_eq(stand_in.retained, 0);
    cr_expect_eq(stand_in.modules, 0);
    cr_expect_eq(stand_in.pushed, 0);
    free(cubin);
    text_free(&variant_text);
    text_free(&plan_text);
    text_free(&logged.text);
}

/* Contiguous tensors, one after another from `memory` on. */
static struct att_args arguments_at(char *memory) {
    enum { Q = B * H * LQ * D * 2, K = B * KV * LK * D * 2 };
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_FORWARD,
                             .attention = {.q = {memory, H * LQ * D, LQ * D, D},
                                           .k = {memory + Q, KV * LK * D, LK * D, D},
                                           .v = {memory + Q + K, KV * LK * D, LK * D, D},
                                           .o = {memory + Q + 2 * K, H * LQ * D, LQ * D, D},
                                           .batch = B,
                                           .heads = H,
                                           .kv_heads = KV,
                                           .len_q = LQ,
                                           .len_kv = LK,
                                           .scale = 0.25f}};
}

static int count(const char *word) {
    int found = 0;
    for (const char *at = stand_in_calls(); (at = strstr(at, word)); at++)
        found++;
    return found;
}

Test(driver_session, a_launch_hands_over_maps_and_parameters, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    struct mapped_params params;
    char launch[256];
    stand_in_forget();
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    cr_expect_eq(count("cuFuncLoad attention"), 1, "%s", stand_in_calls());
    stand_in_forget();
    cr_assert_eq(att_launch(kernel, &args, (void *)0x5000), ATT_OK, "%s", att_message(session));
    snprintf(launch, sizeof launch,
             "cuTensorMapEncodeTiled type=9 rank=4 @0 dims=64,200,4,2 strides=128,25600,102400 box=64,64,1,1 "
             "steps=1,1,1,1 interleave=0 swizzle=3 l2=2 fill=0\n");
    cr_expect_eq(strncmp(stand_in_calls(), launch, strlen(launch)), 0, "%s", stand_in_calls());
    cr_expect(strstr(stand_in_calls(), " @204800 dims=64,333,2,2 strides=128,42624,85248 box=64,64,1,1 "), "%s",
              stand_in_calls());
    cr_expect_eq(count("cuTensorMapEncodeTiled"), 4);
    /* two Q tiles of eight heads are fewer than the GPU's multiprocessors */
    snprintf(
        launch, sizeof launch,
        "cuLaunchKernelEx %s grid=16,1,1 block=%d,1,1 shared=%d stream=0x5000 attributes=1\n    attribute 6: 1,0,0",
        plan.launch[0].entry, plan.launch[0].block, plan.launch[0].shared);
    cr_expect(strstr(stand_in_calls(), launch), "%s\nexpected %s", stand_in_calls(), launch);
    memcpy(mapped_params_begin(&params, &plan), stand_in.params, stand_in.params_size);
    const struct tensor_map *maps = mapped_params_begin(&params, &plan);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(maps[i].word[15], 0x0101010101010101u * (unsigned)(plan.map[i].tensor + 1),
                     "map %d is that of tensor %d", i, plan.map[i].tensor);
    cr_expect_eq(params.attention.q, args.attention.q.data);
    cr_expect_eq(params.attention.o, args.attention.o.data);
    cr_expect_eq(params.attention.k_head_stride, LK * D);
    cr_expect_eq(params.attention.len_kv, LK);
    cr_expect_eq(params.attention.kv_heads, KV);
    cr_expect_eq(params.attention.scale, 0.25f);
}

/* A later launch of the plan may not need the maps. */
Test(driver_session, a_launch_may_take_the_parameters_without_maps, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    struct attention_params params;
    kernel->plan.launch[1] = kernel->plan.launch[0];
    kernel->plan.launch[1].params = PLAN_PARAMS_attention_params;
    kernel->plan.launches = 2;
    stand_in.params_size = sizeof params; /* of the last launch */
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    memcpy(&params, stand_in.params, sizeof params);
    cr_expect_eq(params.q, args.attention.q.data);
    cr_expect_eq(params.len_kv, LK);
}

/* A wrong grid of a template is found before a driver refuses it with a less helpful message. */
Test(driver_session, clusters_are_whole, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    kernel->plan.launch[0].cluster = 3;
    stand_in_forget();
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INTERNAL);
    cr_expect(strstr(att_message(session), "16 blocks are not whole clusters of 3; its template's grid is wrong"), "%s",
              att_message(session));
    cr_expect_eq(count("cuLaunchKernelEx"), 0);
    kernel->plan.launch[0].cluster = 4;
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
}

Test(driver_session, a_tensor_is_described_once, .init = find_kernel, .fini = close_session) {
    struct att_args args = arguments_at(stand_in_memory());
    for (int round = 0; round < 3; round++)
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(count("cuTensorMapEncodeTiled"), 4);
    cr_expect_eq(count("cuLaunchKernelEx"), 3);
    args.attention.k.data = stand_in_memory() + 16;
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(count("cuTensorMapEncodeTiled"), 5);
}

Test(driver_session, a_map_that_the_driver_refuses_is_made_anew, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    stand_in_fail("cuTensorMapEncodeTiled", STAND_IN_INVALID_VALUE, 2);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_LAUNCH_FAILED);
    cr_expect(strstr(att_message(session), "describing a tensor to TMA: CUDA_ERROR_INVALID_VALUE"), "%s",
              att_message(session));
    cr_expect_eq(count("cuLaunchKernelEx"), 0);
    stand_in_fail("", 0, 0);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(count("cuTensorMapEncodeTiled"), 5, "the first had been made");
}

Test(driver_session, nothing_to_compute_calls_nothing, .init = find_kernel, .fini = close_session) {
    struct att_args args = arguments_at(stand_in_memory());
    args.attention.len_q = 0;
    stand_in_forget();
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_str_eq(stand_in_calls(), "");
}

Test(driver_session, a_capture_needs_a_prepared_kernel, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    stand_in.capturing = true;
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_NOT_PREPARED);
    cr_expect(strstr(att_message(session), "bundled is launched into a graph capture for the first time; call "
                                           "att_prepare before capturing"),
              "%s", att_message(session));
    cr_expect_eq(count("cuLaunchKernelEx"), 0);
    cr_expect_eq(att_prepare(kernel), ATT_OK, "even now: %s", att_message(session));
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(count("cuLaunchKernelEx"), 1);
}

Test(driver_session, what_cannot_be_prepared_is_not_launched, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    stand_in_fail("cuFuncLoad", CUDA_OUT_OF_MEMORY, 1);
    for (int round = 0; round < 2; round++)
        cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OUT_OF_MEMORY);
    cr_expect(strstr(att_message(session), "loading a kernel onto the GPU: CUDA_ERROR_OUT_OF_MEMORY"), "%s",
              att_message(session));
    cr_expect_eq(count("cuLaunchKernelEx"), 0);
    stand_in_fail("", 0, 0);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
}

/* A kernel fault is reported later, by whatever waits for the kernel. The session can then only be closed. */
Test(driver_session, a_fault_reaches_whoever_waits, .init = find_kernel, .fini = close_session) {
    const struct att_args args = arguments_at(stand_in_memory());
    char bytes[4];
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    stand_in_break(STAND_IN_ILLEGAL_ADDRESS);
    cr_expect_eq(att_synchronize(session), ATT_LAUNCH_FAILED);
    cr_expect_str_eq(att_message(session),
                     "waiting for the GPU (an earlier kernel may have faulted): CUDA_ERROR_ILLEGAL_ADDRESS, CUresult "
                     "700 (an illegal memory access was encountered)");
    cr_expect_eq(att_copy_out(session, bytes, stand_in_memory(), sizeof bytes), ATT_LAUNCH_FAILED);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_LAUNCH_FAILED);
    stand_in.modules = 0; /* a broken driver releases nothing */
}

Test(driver_session, a_binary_that_does_not_load_is_compiled_anew, .init = open_session, .fini = close_session) {
    stand_in_fail("cuModuleLoadData", CUDA_NO_BINARY_FOR_GPU, 1);
    cr_expect_eq(att_find(session, PROBLEM, SCHEDULE, &kernel), ATT_NO_COMPILER);
    cr_expect(strstr(text_string(&logged.text),
                     "the bundle's bundled does not load, so it is compiled again: loading a binary onto the GPU: "
                     "CUDA_ERROR_NO_BINARY_FOR_GPU"),
              "%s", text_string(&logged.text));
}

static int compiled;

static enum att_status compile_anything(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                        struct failure *failure) {
    (void)backend;
    (void)failure;
    compiled++;
    *binary = (struct binary){.registers = 40};
    binary->bytes = cubin_make(job->entries, job->entry_count, &binary->size);
    return ATT_OK;
}

static enum att_status no_identity(struct backend *backend, const char *arch, struct text *text,
                                   struct failure *failure) {
    (void)backend;
    (void)failure;
    text_print(text, "compiler: none\narch: %s\n", arch ? arch : "");
    return ATT_OK;
}

/* Only a kernel from disk is worth another attempt: the compiler would make the same binary again. */
Test(driver_session, what_was_just_compiled_and_does_not_load_is_not_compiled_again, .init = open_session,
     .fini = close_session) {
    struct backend_type type = backend_cuda;
    type.identity = no_identity;
    type.compile = compile_anything;
    session->type = &type;
    stand_in_fail("cuModuleLoadData", CUDA_NO_BINARY_FOR_GPU, 1);
    cr_expect_eq(att_find(session, "family=softmax", "algorithm=online", &kernel), ATT_LAUNCH_FAILED);
    cr_expect(strstr(att_message(session), "CUDA_ERROR_NO_BINARY_FOR_GPU"), "%s", att_message(session));
    cr_expect_eq(compiled, 1, "compiled %d times", compiled);
    stand_in_fail("", 0, 0);
    cr_expect_eq(att_find(session, "family=softmax", "algorithm=online", &kernel), ATT_OK, "%s", att_message(session));
    cr_expect_eq(compiled, 2, "what does not load is not kept: compiled %d times", compiled);
    session->type = &backend_cuda;
}

static enum att_status open_with(const struct att_bundle_kernel *kernels, int count) {
    static char layout[PARAMS_LAYOUT];
    static struct att_bundle bundle;
    static const struct att_bundle *const bundles[] = {&bundle, NULL};
    const struct att_options options = {.size = sizeof options,
                                        .device = ATT_DEVICE_CUDA,
                                        .no_disk_cache = 1,
                                        .bundles = bundles,
                                        .log = log_message,
                                        .log_context = &logged};
    stand_in_reset();
    cr_assert(params_layout(embedded_templates, layout));
    bundle = (struct att_bundle){ATT_BUNDLE_FORMAT, count, kernels, layout};
    return att_open(&options, &session);
}

/* A launch does not read them, since a captured graph is replayed with others. */
Test(driver_session, lengths_and_page_numbers_on_the_device_are_checked_on_demand) {
    enum { SEQUENCES = 2, MOST = 64, PAGES = 8, PAGE = 16 };
    static const char paged[] = PROBLEM " layout=padded page_size=16 page_table=csr";
    static const struct {
        int32_t lengths[SEQUENCES], indptr[SEQUENCES + 1], indices[4];
        const char *message; /* null: nothing is wrong */
    } cases[] = {
        {{40, 9}, {0, 3, 4}, {7, 0, 3, 5}, NULL},
        {{65, 9}, {0, 3, 4}, {7, 0, 3, 5}, "lengths_kv[0] is 65, expected 0 to 64"},
        {{40, 9}, {0, 3, 4}, {7, 0, 8, 5}, "page 2 of sequence 0 is 8, expected 0 to 7: there are 8 pages"},
        {{40, 9}, {0, 2, 4}, {7, 0, 3, 5}, "page_indptr[1] is 2, expected 3"},
        {{40, 9}, {0, 3, 2}, {7, 0, 3, 5}, "page_indptr[1] is 3 and the next is 2, expected at least 0"},
        {{40, 9}, {-1, 3, 4}, {7, 0, 3, 5}, "page_indptr[0] is -1"},
    };
    make_bundle_of(paged);
    cr_assert_eq(open_with(&bundled, 1), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_find(session, paged, NULL, &kernel), ATT_OK, "%s", att_message(session));
    stand_in.params_size = plan.maps ? mapped_params_size(&plan, sizeof(struct attention_params)) : 0;
    void *memory;
    cr_assert_eq(att_alloc(session, 256, &memory), ATT_OK);
    int32_t *numbers = memory; /* on the stand-in's device, which is this memory */
    struct att_args args = arguments_at((char *)memory + 256);
    struct att_attention_args *a = &args.attention;
    a->len_kv = MOST;
    a->pages = PAGES;
    a->k.batch_stride = a->v.batch_stride = KV * PAGE * D;
    a->k.head_stride = a->v.head_stride = PAGE * D;
    a->lengths_kv = numbers, a->page_indptr = numbers + 4, a->page_indices = numbers + 8;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(numbers, cases[i].lengths, sizeof cases[i].lengths);
        memcpy(numbers + 4, cases[i].indptr, sizeof cases[i].indptr);
        memcpy(numbers + 8, cases[i].indices, sizeof cases[i].indices);
        stand_in_forget();
        enum att_status status = att_check(kernel, &args);
        cr_expect_eq(status, cases[i].message ? ATT_INVALID_ARGUMENT : ATT_OK, "%zu: %s", i, att_message(session));
        cr_expect(!cases[i].message || strstr(att_message(session), cases[i].message), "expected %s, found %s",
                  cases[i].message, att_message(session));
        cr_expect_eq(count("cuLaunchKernel"), 0);
        cr_expect(count("cuCtxSynchronize") && count("cuMemcpyDtoH"), "%s", stand_in_calls());
    }
    a->lengths_kv = NULL;
    cr_expect_eq(att_check(kernel, &args), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "lengths_kv is null"), "%s", att_message(session));
    cr_expect_eq(att_check(kernel, NULL), ATT_INVALID_ARGUMENT);
    cr_expect_eq(att_check(NULL, &args), ATT_INVALID_ARGUMENT);
    att_free(session, memory);
    close_session();
}

/* The PTX loads when the kernel is found, so that no launch compiles. */
Test(driver_session, the_driver_gets_ptx_where_no_binary_runs) {
    static const char ptx[] = ".version 7.0\n.target sm_80\n";
    make_bundle();
    struct att_bundle_kernel kernels[] = {bundled, bundled, bundled};
    kernels[0].name = "text";
    kernels[0].arch = "compute_80";
    kernels[0].binary = ptx;
    kernels[0].size = sizeof ptx;
    kernels[1].arch = "sm_80";
    cr_assert_eq(open_with(kernels, 2), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_find(session, PROBLEM, SCHEDULE, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect_str_eq(att_kernel_name(kernel), "text");
    cr_expect_eq(count("cuModuleLoadData"), 1);
    att_close(session);
    cr_assert_eq(open_with(kernels, 3), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_find(session, PROBLEM, SCHEDULE, &kernel), ATT_OK, "%s", att_message(session));
    cr_expect_str_eq(att_kernel_name(kernel), "bundled", "binaries come first");
    close_session();
}

Test(driver_session, a_bundle_for_other_devices_is_told_of) {
    make_bundle();
    struct att_bundle_kernel kernels[] = {bundled, bundled, bundled};
    kernels[0].arch = "sm_80";
    kernels[1].arch = "host";
    kernels[2].arch = "sm_80";
    cr_assert_eq(open_with(kernels, 3), ATT_OK, "%s", att_message(session));
    cr_expect(
        strstr(text_string(&logged.text), "bundles[0]: none of its kernels is for sm_90a; they are for sm_80, host\n"),
        "%s", text_string(&logged.text));
    close_session();
    text_free(&logged.text);
}

Test(driver_session, without_a_gpu_the_cpu_is_taken) {
    const struct att_options options = {
        .size = sizeof options, .no_disk_cache = 1, .log = log_message, .log_context = &logged};
    struct att_session_info info = {.size = sizeof info};
    stand_in_reset();
    stand_in.devices = 0;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_session_describe(session, &info), ATT_OK);
    cr_expect_eq(info.device, ATT_DEVICE_HOST);
    cr_expect(strstr(text_string(&logged.text),
                     "no GPU, so kernels run on this CPU: ordinal: there is no GPU number 0; "
                     "this machine has 0"),
              "%s", text_string(&logged.text));
    att_close(session);
    text_free(&logged.text);
}

/* A GPU that is present but does not work is no reason to be silently slow. */
Test(driver_session, a_gpu_that_has_no_memory_left_is_not_passed_over) {
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1};
    stand_in_reset();
    stand_in_fail("cuDevicePrimaryCtxRetain", CUDA_OUT_OF_MEMORY, 1);
    cr_expect_eq(att_open(&options, &session), ATT_OUT_OF_MEMORY);
    cr_expect(strstr(att_message(session), "opening the GPU's primary context"), "%s", att_message(session));
    att_close(session);
}
