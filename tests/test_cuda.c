/* Tests that need a GPU. They are skipped, with the reason, where there is none. */
#include "plan_text.h"
#include "cuda_api.h"
#include "helper_driver.h"
#include "params_layout.h"
#include "session.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 40, COLS = 100, COUNT = ROWS * COLS };

static att_session *open_or_skip(void) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA, .no_disk_cache = 1};
    att_session *session;
    enum att_status status = att_open(&options, &session);
    if (status == ATT_NO_DEVICE)
        cr_skip_test("no GPU: %s", att_message(session));
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    return session;
}

static att_kernel *find(att_session *session) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, "family=softmax", NULL, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

static struct att_args upload(att_session *session) {
    static float x[COUNT];
    void *dx, *dy;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 11);
    cr_assert_eq(att_alloc(session, sizeof x, &dx), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_alloc(session, sizeof x, &dy), ATT_OK);
    cr_assert_eq(att_copy_in(session, dx, x, sizeof x), ATT_OK);
    cr_assert_eq(att_copy_in(session, dy, x, sizeof x), ATT_OK);
    return (struct att_args){
        .size = sizeof(struct att_args), .family = ATT_SOFTMAX, .softmax = {dx, dy, COLS, COLS, ROWS, COLS}};
}

static void check_rows(att_session *session, const struct att_args *args) {
    static float y[COUNT];
    cr_assert_eq(att_copy_out(session, y, args->softmax.y, sizeof y), ATT_OK, "%s", att_message(session));
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLS; c++)
            sum += (double)y[r * COLS + c];
        cr_expect(fabs(sum - 1) < 1e-5, "row %d adds up to %g", r, sum);
    }
}

Test(cuda, describes_the_gpu_and_its_kernels) {
    att_session *session = open_or_skip();
    struct att_session_info info = {.size = sizeof info};
    struct att_kernel_info kernel = {.size = sizeof kernel};
    cr_assert_eq(att_session_describe(session, &info), ATT_OK);
    cr_expect_eq(info.device, ATT_DEVICE_CUDA);
    cr_expect(strncmp(info.arch, "sm_", 3) == 0, "%s", info.arch);
    cr_expect_gt(info.multiprocessors, 0);
    cr_expect(strstr(info.compiler, "NVRTC"));
    cr_assert_eq(att_kernel_describe(find(session), &kernel), ATT_OK);
    cr_expect(kernel.registers > 0 && kernel.spill_bytes == 0 && kernel.binary_size > 0);
    att_close(session);
}

Test(cuda, a_capture_needs_a_prepared_kernel_and_survives_being_told_so) {
    att_session *session = open_or_skip();
    att_kernel *kernel = find(session);
    struct att_args args = upload(session);
    void *stream = driver_stream();
    for (int global = 0; global < 2; global++) {
        kernel->prepared = false;
        driver_capture_begin(stream, !global);
        cr_expect_eq(att_launch(kernel, &args, stream), ATT_NOT_PREPARED);
        cr_expect(strstr(att_message(session), "att_prepare"), "%s", att_message(session));
        cr_expect_eq(att_prepare(kernel), ATT_OK, "even now: %s", att_message(session));
        cr_expect_eq(att_launch(kernel, &args, stream), ATT_OK, "%s", att_message(session));
        driver_graph_launch(driver_capture_end(stream), stream); /* the capture survived */
        cr_assert_eq(att_synchronize(session), ATT_OK, "%s", att_message(session));
        check_rows(session, &args);
    }
    att_close(session);
}

Test(cuda, finding_a_kernel_leaves_a_capture_elsewhere_alone) {
    att_session *session = open_or_skip();
    struct att_args args = upload(session);
    att_kernel *kernel = find(session), *other;
    cr_assert_eq(att_prepare(kernel), ATT_OK);
    void *stream = driver_stream();
    driver_capture_begin(stream, false);
    cr_expect_eq(att_launch(kernel, &args, stream), ATT_OK, "%s", att_message(session));
    cr_expect_eq(att_find(session, "family=softmax", "threads=64", &other), ATT_OK, "%s", att_message(session));
    cr_expect_eq(att_prepare(other), ATT_OK, "%s", att_message(session));
    driver_capture_end(stream);
    att_close(session);
}

/* The cache drops a faulty binary, so a GPU in trouble must not be taken for one. Needs no GPU. */
Test(cuda, a_gpu_in_trouble_says_nothing_against_a_binary) {
    static const struct {
        int error;
        enum att_status status;
    } cases[] = {
        {200, ATT_LAUNCH_FAILED}, /* invalid image */
        {209, ATT_LAUNCH_FAILED}, /* no binary for this GPU */
        {1, ATT_LAUNCH_FAILED},   /* invalid value: may come from a truncated image */
        {500, ATT_LAUNCH_FAILED}, /* no such function in it */
        {700, ATT_NO_DEVICE},     /* an earlier kernel's illegal address */
        {719, ATT_NO_DEVICE},     /* an earlier kernel's fault */
        {214, ATT_NO_DEVICE},     /* uncorrectable memory error */
        {4, ATT_NO_DEVICE},       /* the driver is shutting down */
        {999, ATT_NO_DEVICE},     /* unknown */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(cuda_api_load_status(cases[i].error), cases[i].status, "CUresult %d", cases[i].error);
}

Test(cuda, what_the_driver_refuses_is_named) {
    att_session *session = open_or_skip();
    att_kernel *kernel = find(session);
    const char *entry = kernel->plan.launch[0].entry;
    const struct compile_job job = {
        .source = att_kernel_source(kernel), .name = "old.cu", .arch = "sm_75", .entries = &entry, .entry_count = 1};
    struct module *module = NULL;
    struct binary old;
    struct failure failure = {0};
    cr_assert_eq(session->type->compile(session->backend, &job, &old, &failure), ATT_OK, "%s",
                 text_string(&failure.text));
    const struct {
        size_t size;
        const char *words;
    } cases[] = {{old.size, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {old.size - 1, "damaged"}, {100, "damaged"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(session->type->load(session->backend, old.bytes, cases[i].size, &kernel->plan, &module, &failure),
                     ATT_LAUNCH_FAILED);
        cr_expect_null(module);
        cr_expect(strstr(text_string(&failure.text), cases[i].words), "%s", text_string(&failure.text));
        failure_clear(&failure);
    }
    binary_free(&old);
    void *memory;
    cr_expect_eq(att_alloc(session, (size_t)1 << 50, &memory), ATT_OUT_OF_MEMORY);
    cr_expect(strstr(att_message(session), "CUDA_ERROR_OUT_OF_MEMORY"), "%s", att_message(session));
    att_close(session);
}

/* `arch` as in a bundle; null = the GPU's own. */
static void run_from_bundle(const char *arch) {
    att_session *session = open_or_skip();
    att_kernel *built = find(session), *kernel;
    const char *entry = built->plan.launch[0].entry;
    const struct compile_job job = {
        .source = att_kernel_source(built), .name = "bundled.cu", .entries = &entry, .entry_count = 1, .arch = arch};
    struct binary binary;
    struct failure failure = {0};
    struct text variant = {0}, plan = {0};
    cr_assert_eq(session->type->compile(session->backend, &job, &binary, &failure), ATT_OK);
    variant_print(&built->variant, &variant);
    plan_write(&built->plan, &plan);
    const struct att_bundle_kernel kernels[] = {{.name = "bundled",
                                                 .variant = text_string(&variant),
                                                 .arch = arch ? arch : session->info.arch,
                                                 .plan = text_string(&plan),
                                                 .binary = binary.bytes,
                                                 .size = binary.size}};
    char layout[PARAMS_LAYOUT];
    cr_assert(params_layout(embedded_templates, layout));
    const struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 1, kernels, layout};
    const struct att_bundle *const bundles[] = {&bundle, NULL};
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CUDA, .no_disk_cache = 1, .bundles = bundles};
    att_session *second;
    setenv("ATTILE_NVRTC", "/nonexistent/libnvrtc.so", 1);
    cr_assert_eq(att_open(&options, &second), ATT_OK, "%s", att_message(second));
    kernel = find(second);
    cr_expect_str_eq(att_kernel_name(kernel), "bundled");
    struct att_args args = upload(second);
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(second));
    check_rows(second, &args);
    cr_expect_eq(att_find(second, "family=softmax", "threads=64", &kernel), ATT_NO_COMPILER);
    att_close(second);
    att_close(session);
    binary_free(&binary);
    text_free(&variant);
    text_free(&plan);
}

Test(cuda, bundles_run_without_nvrtc) { run_from_bundle(NULL); }
Test(cuda, ptx_of_a_bundle_runs_without_nvrtc) { run_from_bundle("compute_80"); }

Test(cuda, timer_measures_and_two_sessions_share_the_gpu) {
    att_session *session = open_or_skip(), *second = open_or_skip();
    att_kernel *kernel = find(session);
    struct att_args args = upload(session);
    struct failure failure = {0};
    double seconds = 0;
    cr_assert_eq(att_launch(find(second), &args, NULL), ATT_OK, "%s", att_message(second));
    att_close(second);
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(session->type->timer_start(session->backend, NULL, &failure), ATT_OK);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(session->type->timer_stop(session->backend, NULL, &seconds, &failure), ATT_OK);
    cr_expect(seconds > 1e-6 && seconds < 1, "%g s", seconds);
    check_rows(session, &args);
    cr_log_info("a launch takes %.2f us\n", seconds * 1e3);
    att_close(session);
}

Test(cuda, a_forked_child_is_told_so) {
    att_session *session = open_or_skip();
    att_kernel *kernel = find(session);
    struct att_args args = upload(session);
    pid_t child = fork();
    if (child == 0) {
        int good = att_launch(kernel, &args, NULL) == ATT_FORKED;
        att_close(session);
        _exit(good ? 0 : 1);
    }
    int result;
    cr_assert_eq(waitpid(child, &result, 0), child);
    cr_expect(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "the parent goes on: %s", att_message(session));
    check_rows(session, &args);
    att_close(session);
}
