#include "params_layout.h"
#include "session.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLASH   "family=attention_forward head_dim=16 mask=causal"
#define SOFTMAX "family=softmax"

static char folder[] = "/tmp/attile-find-XXXXXX";

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}
static void make_folder(void) { cr_assert_not_null(mkdtemp(folder)); }
static void remove_folder(void) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
TestSuite(find, .init = make_folder, .fini = remove_folder);

static att_session *open_session(const struct att_options *more) {
    struct att_options options =
        more ? *more : (struct att_options){.size = sizeof(struct att_options), .no_disk_cache = 1};
    att_session *session;
    options.device = ATT_DEVICE_HOST;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    return session;
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

static const char *from(att_kernel *kernel) {
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(att_kernel_describe(kernel, &info), ATT_OK);
    return info.from;
}

Test(find, one_variant_is_one_kernel_however_it_is_spelled) {
    att_session *session = open_session(NULL);
    att_kernel *first = find(session, FLASH, "algorithm=flash");
    cr_expect_eq(find(session, FLASH, "algorithm=flash"), first, "asked again");
    cr_expect_eq(find(session, "mask: causal, head_dim: 16\nfamily: attention_forward", "algorithm: flash"), first);
    cr_expect_eq(find(session, FLASH " dtype=fp32 head_dim_v=16 dtype_out=fp32", "algorithm=flash"), first);
    cr_expect_neq(find(session, FLASH, "algorithm=multi_pass"), first);
    cr_expect_neq(find(session, "family=attention_forward head_dim=16", "algorithm=flash"), first);
    cr_expect(strstr(att_kernel_source(first), "__global__"));
    cr_expect(strstr(att_kernel_name(first), "attention_forward"));
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(att_kernel_describe(first, &info), ATT_OK);
    cr_expect_str_eq(info.from, "compiler");
    cr_expect(info.launches == 1 && info.threads >= 32 && info.binary_size > 0 && info.compile_seconds > 0);
    att_close(session);
}

Test(find, bad_texts_say_where_and_what) {
    att_session *session = open_session(NULL);
    static const struct {
        const char *problem, *schedule;
        enum att_status status;
        const char *words;
    } cases[] = {
        {"", NULL, ATT_INVALID_TEXT, "no family is named; expected family= with one of softmax, attention_forward"},
        {"family=attention", NULL, ATT_INVALID_TEXT, "<problem>:1:8: error:"},
        {"famili=softmax", NULL, ATT_INVALID_TEXT, "did you mean 'family'"},
        {FLASH "\nhead_dim=0", NULL, ATT_INVALID_TEXT, "<problem>:2:"},
        {FLASH " block_m=16", NULL, ATT_INVALID_TEXT, "block_m"},
        {FLASH, "mask=none", ATT_INVALID_TEXT, "<schedule>:1:1"},
        {FLASH, "block_m=sixteen", ATT_INVALID_TEXT, "<schedule>:1:9"},
        {SOFTMAX " head_dim=64 mask=causal", NULL, ATT_UNSUPPORTED, "no kernel answers this problem: "},
        {SOFTMAX, "threads=33", ATT_UNSUPPORTED, "threads % 32 == 0"},
        {SOFTMAX, "algorithm=fold", ATT_UNSUPPORTED, "no kernel answers this problem: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_kernel *kernel = (att_kernel *)&kernel;
        enum att_status status = att_find(session, cases[i].problem, cases[i].schedule, &kernel);
        cr_expect_eq(status, cases[i].status, "case %zu: %s: %s", i, att_status_name(status), att_message(session));
        cr_expect(strstr(att_message(session), cases[i].words), "case %zu: no \"%s\" in: %s", i, cases[i].words,
                  att_message(session));
        cr_expect_null(kernel);
    }
    att_close(session);
}

Test(find, disk_answers_the_next_session) {
    const struct att_options options = {.size = sizeof options, .cache_dir = folder};
    att_session *session = open_session(&options);
    cr_expect_str_eq(from(find(session, SOFTMAX, NULL)), "compiler");
    att_close(session);
    session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX, NULL);
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(att_kernel_describe(kernel, &info), ATT_OK);
    cr_expect_str_eq(info.from, "disk");
    cr_expect_eq(info.compile_seconds, 0);
    cr_expect_str_eq(from(find(session, SOFTMAX, "threads=64")), "compiler", "another schedule is another entry");
    att_close(session);
}

/* --- a device that refuses ---------------------------------------------------------------------------------------- */

static int compiles, loads, refusals;
static struct backend_type stubborn;

static enum att_status count_compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                     struct failure *failure) {
    compiles++;
    return backend_host.compile(backend, job, binary, failure);
}

static enum att_status refuse_load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                                   struct module **module, struct failure *failure) {
    loads++;
    if (refusals-- > 0)
        return failure_set(failure, ATT_LAUNCH_FAILED, "refused on purpose");
    return backend_host.load(backend, bytes, size, plan, module, failure);
}

static enum att_status refuse_compiled(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                       struct failure *failure) {
    (void)backend;
    compiles++;
    *binary = (struct binary){.refused = refusals != 0};
    return failure_set(failure, ATT_COMPILE_FAILED, "%s spills on purpose", job->name);
}

static att_session *open_stubborn(int refuse) {
    const struct att_options options = {.size = sizeof options, .cache_dir = folder};
    att_session *session = open_session(&options);
    stubborn = backend_host;
    stubborn.compile = count_compile;
    stubborn.load = refuse_load;
    session->type = &stubborn;
    compiles = loads = 0;
    refusals = refuse;
    return session;
}

Test(find, what_a_log_rules_out_is_compiled_once_and_what_fails_is_tried_again) {
    for (int refused = 0; refused < 2; refused++)
        for (int attempt = 0; attempt < 2; attempt++) {
            att_kernel *kernel;
            att_session *session = open_stubborn(refused);
            stubborn.compile = refuse_compiled;
            cr_expect_eq(att_find(session, SOFTMAX, refused ? "threads=96" : "threads=160", &kernel),
                         ATT_COMPILE_FAILED);
            cr_expect(strstr(att_message(session), "spills on purpose"), "%s", att_message(session));
            cr_expect_eq(compiles, refused && attempt ? 0 : 1, "refused %d, attempt %d: %d compiles", refused, attempt,
                         compiles);
            cr_expect_eq(loads, 0);
            att_close(session);
        }
}

Test(find, bytes_that_the_device_refuses_are_rebuilt_once) {
    att_kernel *kernel;
    att_session *session = open_stubborn(0);
    find(session, SOFTMAX, NULL);
    cr_expect(compiles == 1 && loads == 1, "cold: %d compiles, %d loads", compiles, loads);
    att_close(session);

    session = open_stubborn(1);
    cr_expect_str_eq(from(find(session, SOFTMAX, NULL)), "compiler");
    cr_expect(compiles == 1 && loads == 2, "healed: %d compiles, %d loads", compiles, loads);
    att_close(session);

    session = open_stubborn(2);
    cr_expect_eq(att_find(session, SOFTMAX, NULL, &kernel), ATT_LAUNCH_FAILED);
    cr_expect(strstr(att_message(session), "refused on purpose"), "%s", att_message(session));
    cr_expect(compiles == 1 && loads == 2, "given up: %d compiles, %d loads", compiles, loads);
    find(session, SOFTMAX, NULL); /* and tried again when asked again */
    att_close(session);
}

/* --- what a session keeps ------------------------------------------------------------------------------------------- */

static bool remembers(att_session *session, const char *problem) {
    struct text asked = {0};
    text_print(&asked, "%s\n=algorithm=flash", problem);
    bool known = names_find(&session->asked, &asked);
    text_free(&asked);
    return known;
}

Test(find, many_texts_are_remembered_up_to_a_limit) {
    enum { TEXTS = 3 * TEXTS_KEPT };
    att_session *session = open_session(NULL);
    char first[100], problem[100];
    snprintf(first, sizeof first, FLASH " batch=1");
    att_kernel *kernel = find(session, first, "algorithm=flash");
    for (int i = 2; i <= TEXTS; i++) {
        snprintf(problem, sizeof problem, FLASH " batch=%d", i);
        cr_assert_eq(find(session, problem, "algorithm=flash"), kernel);
        if (i % 1000 == 0) {
            cr_assert(remembers(session, first), "asked again and again, and forgotten after %d", i);
            cr_assert_eq(find(session, first, "algorithm=flash"), kernel);
        }
    }
    cr_expect_eq(session->asked.count, TEXTS_KEPT, "%zu texts", session->asked.count);
    cr_expect_leq(session->asked.room, 2 * TEXTS_KEPT, "%zu buckets", session->asked.room);
    cr_expect_geq(session->asked.room, TEXTS_KEPT, "the table grew with its texts: %zu", session->asked.room);
    cr_expect(remembers(session, problem), "the last");
    cr_expect(remembers(session, first), "one that is asked again and again");
    snprintf(problem, sizeof problem, FLASH " batch=%d", TEXTS_KEPT);
    cr_expect_not(remembers(session, problem), "one of long ago");
    cr_expect_eq(session->variants.count, 1);
    att_close(session);
}

/* A device that counts its modules, which cost nothing. */
struct module {
    bool loaded;
};

enum { PROBLEMS = 400 };
static struct module modules[20 * PROBLEMS];
static atomic_int modules_made, modules_loaded, waits, unloads_without_wait;

static enum att_status pretend_compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                                       struct failure *failure) {
    (void)backend, (void)job, (void)failure;
    *binary = (struct binary){.bytes = calloc(1, 1), .size = 1};
    return ATT_OK;
}

static enum att_status pretend_load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                                    struct module **module, struct failure *failure) {
    (void)backend, (void)bytes, (void)size, (void)plan, (void)failure;
    *module = &modules[atomic_fetch_add(&modules_made, 1)];
    (*module)->loaded = true;
    modules_loaded++;
    return ATT_OK;
}

static void pretend_unload(struct backend *backend, struct module *module) {
    (void)backend;
    if (!module)
        return;
    unloads_without_wait += waits == 0;
    module->loaded = false;
    modules_loaded--;
}

static enum att_status pretend_wait(struct backend *backend, struct failure *failure) {
    (void)backend, (void)failure;
    waits++;
    return ATT_OK;
}

static att_session *open_pretender(void) {
    static struct backend_type pretender;
    att_session *session = open_session(NULL);
    pretender = backend_host;
    pretender.compile = pretend_compile;
    pretender.load = pretend_load;
    pretender.unload = pretend_unload;
    pretender.synchronize = pretend_wait;
    session->type = &pretender;
    return session;
}

static att_kernel *find_number(att_session *session, int number) {
    char problem[100];
    snprintf(problem, sizeof problem, "family=attention_forward head_dim=%d head_dim_v=%d", 1 + number % 256,
             1 + number / 256);
    return find(session, problem, "algorithm=flash");
}

Test(find, kernels_given_back_are_unloaded_and_those_in_use_are_not) {
    att_session *session = open_pretender();
    att_kernel *held = find_number(session, 0), *twice = find_number(session, 1);
    cr_expect_eq(find_number(session, 1), twice);
    att_release(twice);
    for (int number = 2; number < PROBLEMS; number++) {
        att_kernel *kernel = find_number(session, number);
        cr_assert(kernel->module->loaded);
        att_release(kernel);
        cr_assert_leq(modules_loaded, KERNELS_KEPT + 2, "after %d: %d", number, modules_loaded);
        cr_assert_leq(session->variants.count, KERNELS_KEPT + 2, "after %d", number);
        cr_assert_leq(session->asked.count, KERNELS_KEPT + 2, "texts of kernels that are gone go too");
    }
    cr_expect_geq(modules_loaded, KERNELS_KEPT / 2, "the last ones stay for who asks again");
    cr_expect_eq(unloads_without_wait, 0, "a kernel may still be running");
    cr_expect_eq(find_number(session, 0), held);
    cr_expect_eq(find_number(session, 1), twice);
    cr_expect(held->module->loaded && twice->module->loaded);
    int made = modules_made;
    att_release(find_number(session, PROBLEMS - 1));
    cr_expect_eq(modules_made, made, "one given back a moment ago is still there");
    att_release(find_number(session, 2));
    cr_expect_eq(modules_made, made + 1, "one of long ago is made anew");
    for (int i = 0; i < 5; i++)
        att_release(held); /* more often than it was found */
    att_release(NULL);
    cr_expect_eq(find_number(session, 0), held);
    att_close(session);
    cr_expect_eq(modules_loaded, 0);
}

static void *find_and_release(void *session) {
    static atomic_uint threads;
    unsigned state = ++threads;
    for (int i = 0; i < 300; i++) {
        state = state * 1664525u + 1013904223u;
        att_kernel *kernel = find_number(session, (int)(state >> 16) % 150);
        for (int look = 0; look < 100; look++)
            if (!kernel->module->loaded)
                return NULL;
        att_release(kernel);
    }
    return session;
}

Test(find, threads_never_lose_a_kernel_in_use) {
    att_session *session = open_pretender();
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, find_and_release, session), 0);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cr_expect_not_null(result, "a kernel in use was unloaded");
    }
    cr_expect_leq(modules_loaded, KERNELS_KEPT, "%d", modules_loaded);
    att_close(session);
    cr_expect_eq(modules_loaded, 0);
}

/* --- a process that cannot load --------------------------------------------------------------------------------- */

static int count_files(const char *part) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, part);
    DIR *stream = opendir(path);
    int count = 0;
    for (const struct dirent *entry; stream && (entry = readdir(stream));)
        count += entry->d_name[0] != '.';
    if (stream)
        closedir(stream);
    return count;
}

Test(find, a_plugin_can_load_kernels) {
    char command[400];
    snprintf(command, sizeof command, "%s/tests/plugin_probe %s %s/runtime/libattile.so", BUILD_DIR, folder, BUILD_DIR);
    cr_expect_eq(system(command), 0);
    cr_expect_eq(system(command), 0, "from disk");
    cr_expect_eq(count_files("entries"), 1);
}

/* --- templates of the user's own ---------------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

#define SMALL_TEMPLATE                                                                                                 \
    "//$ default threads = 32\n"                                                                                       \
    "//$ launch rows_of_ones grid rows block threads shared 0\n"                                                       \
    "struct softmax_params { const void *x; void *y; long long x_row_stride, y_row_stride, rows, cols; };\n"           \
    "extern \"C\" __global__ void __launch_bounds__(THREADS) rows_of_ones(const softmax_params p) {\n"

static att_session *open_with_templates(const char *body) {
    char text[1024];
    snprintf(text, sizeof text, SMALL_TEMPLATE "%s}\n", body);
    write_file("softmax_online.cu", text);
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1, .template_dir = folder};
    return open_session(&options);
}

Test(find, own_templates_are_used) {
    att_session *session =
        open_with_templates("    if (threadIdx.x == 0) static_cast<float *>(p.y)[blockIdx.x] = 1;\n");
    att_kernel *kernel = find(session, SOFTMAX, "algorithm=online");
    cr_expect(strstr(att_kernel_source(kernel), "rows_of_ones"));
    att_close(session);
}

/* Launches one row per block, in templates that count the device's multiprocessors or ask for clusters. */
static enum att_status run_rows(const char *launch, uint64_t seed, float *rows, int count) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "%s\nstruct softmax_params { const void *x; void *y; long long x_row_stride, y_row_stride, rows, cols; };\n"
        "extern \"C\" __global__ void __launch_bounds__(32) rows(const softmax_params p) {\n"
        "    for (int row = blockIdx.x; threadIdx.x == 0 && row < p.rows; row += gridDim.x)\n"
        "        static_cast<float *>(p.y)[row] = gridDim.x;\n}\n",
        launch);
    write_file("softmax_online.cu", text);
    const struct att_options options = {
        .size = sizeof options, .no_disk_cache = 1, .template_dir = folder, .host_seed = seed};
    att_session *session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX " target=sm_90a", "algorithm=online");
    void *buffer;
    cr_assert_eq(att_alloc(session, (size_t)count * sizeof *rows, &buffer), ATT_OK);
    cr_assert_eq(att_copy_in(session, buffer, rows, (size_t)count * sizeof *rows), ATT_OK);
    struct att_args args = {
        .size = sizeof args,
        .family = ATT_SOFTMAX,
        .softmax = {.x = buffer, .y = buffer, .x_row_stride = 1, .y_row_stride = 1, .rows = count, .cols = 1}};
    enum att_status status = att_launch(kernel, &args, NULL);
    cr_assert_eq(att_copy_out(session, rows, buffer, (size_t)count * sizeof *rows), ATT_OK);
    att_close(session);
    return status;
}

Test(find, launches_know_the_multiprocessors_of_the_device) {
    static const struct {
        uint64_t seed;
        int count, blocks;
    } cases[] = {{0, 3, 3}, {0, 4, 4}, {0, 40, 4}, {1, 40, 5}, {3, 40, 2}, {3, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float rows[40] = {0};
        cr_assert_eq(
            run_rows("//$ launch rows grid min(sm_count, rows) block 32 shared 0", cases[i].seed, rows, cases[i].count),
            ATT_OK);
        for (int row = 0; row < 40; row++)
            cr_expect_eq((int)rows[row], row < cases[i].count ? cases[i].blocks : 0, "case %zu, row %d", i, row);
    }
}

Test(find, clusters_divide_the_grid) {
    float rows[40] = {0};
    cr_expect_eq(run_rows("//$ launch rows grid rows block 32 shared 0 cluster 2", 0, rows, 6), ATT_OK);
    cr_expect_eq((int)rows[5], 6);
    cr_expect_eq(run_rows("//$ launch rows grid rows block 32 shared 0 cluster 2", 0, rows, 7), ATT_INTERNAL);
}

/* A function that this process lacks says nothing against the kernel: another process may have it. */
Test(find, whole_kernels_that_do_not_load_stay_in_the_cache) {
    write_file("softmax_online.cu",
               "//$ default threads = 32\n"
               "//$ launch rows grid rows block threads shared 0\n"
               "struct softmax_params { const void *x; void *y; long long x_row_stride, y_row_stride, rows, cols; };\n"
               "extern \"C\" void no_such_function();\n"
               "extern \"C\" __global__ void rows(const softmax_params p) { no_such_function(); }\n");
    const struct att_options options = {.size = sizeof options, .cache_dir = folder, .template_dir = folder};
    for (int attempt = 0; attempt < 2; attempt++) {
        att_kernel *kernel;
        att_session *session = open_session(&options);
        cr_expect_eq(att_find(session, SOFTMAX, "algorithm=online", &kernel), ATT_UNSUPPORTED);
        cr_expect(strstr(att_message(session), "no_such_function"), "%s", att_message(session));
        cr_expect_eq(count_files("entries"), 1, "attempt %d", attempt);
        cr_expect_eq(count_files("quarantine"), 0, "attempt %d", attempt);
        att_close(session);
    }
}

Test(find, compiler_errors_lead_to_the_template) {
    att_session *session = open_with_templates("    int a = 1;\n    a = no_such_name;\n");
    att_kernel *kernel;
    cr_assert_eq(att_find(session, SOFTMAX, "algorithm=online", &kernel), ATT_COMPILE_FAILED);
    cr_expect(strstr(att_message(session), "no_such_name"), "%s", att_message(session));
    cr_expect(strstr(att_message(session), " comes from softmax_online.cu:6\n"), "%s", att_message(session));
    att_close(session);
}

Test(find, template_errors_are_reported_at_open) {
    write_file("softmax_online.cu", "//$ if dtype == fp32\nint x;\n");
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .template_dir = folder};
    att_session *session;
    cr_expect_eq(att_open(&options, &session), ATT_INVALID_TEXT);
    cr_expect(strstr(att_message(session), "softmax_online.cu:1"), "%s", att_message(session));
    att_close(session);
}

/* --- without a compiler ------------------------------------------------------------------------------------------- */

Test(find, bundles_work_without_a_compiler) {
    att_session *session = open_session(NULL);
    att_kernel *built = find(session, SOFTMAX, "threads=64");
    struct text variant = {0}, source = {0};
    struct failure failure = {0};
    variant_print(&built->variant, &variant);
    text_print(&source, "%s", att_kernel_source(built));
    const char *entry = built->plan.launch[0].entry;
    const struct compile_job job = {
        .source = text_string(&source), .name = "bundled.cu", .entries = &entry, .entry_count = 1};
    struct binary binary;
    cr_assert_eq(session->type->compile(session->backend, &job, &binary, &failure), ATT_OK);
    char plan[256];
    snprintf(plan, sizeof plan, "launch %s %d %d rows\nworkspace 0\n", entry, built->plan.launch[0].block,
             built->plan.launch[0].shared);
    const struct att_bundle_kernel kernels[] = {{.name = "bundled",
                                                 .variant = text_string(&variant),
                                                 .arch = "host",
                                                 .plan = plan,
                                                 .binary = binary.bytes,
                                                 .size = binary.size,
                                                 .registers = 17}};
    char layout[PARAMS_LAYOUT];
    cr_assert(params_layout(embedded_templates, layout));
    const struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 1, kernels, layout};
    const struct att_bundle *const bundles[] = {&bundle, NULL};
    att_close(session);

    setenv("PATH", "/nonexistent", 1);
    unsetenv("CXX");
    const struct att_options options = {.size = sizeof options, .no_disk_cache = 1, .bundles = bundles};
    session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX, NULL);
    cr_expect_str_eq(from(kernel), "bundle");
    cr_expect_str_eq(att_kernel_name(kernel), "bundled");
    cr_expect_str_eq(att_kernel_source(kernel), "");
    struct att_kernel_info info = {.size = sizeof info};
    cr_assert_eq(att_kernel_describe(kernel, &info), ATT_OK);
    cr_expect_eq(info.registers, 17);
    cr_expect_eq(info.threads, 64);
    cr_expect_str_eq(from(find(session, SOFTMAX, "threads=64")), "bundle");
    cr_expect_eq(att_find(session, SOFTMAX, "threads=32", &kernel), ATT_NO_COMPILER, "%s", att_message(session));
    cr_expect(strstr(att_message(session), "CXX"), "%s", att_message(session));

    float in[] = {1, 1, 1, 1}, out[4];
    void *x, *y;
    kernel = find(session, SOFTMAX, NULL);
    cr_assert_eq(att_alloc(session, sizeof in, &x), ATT_OK);
    cr_assert_eq(att_alloc(session, sizeof in, &y), ATT_OK);
    att_copy_in(session, x, in, sizeof in);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_SOFTMAX,
                            .softmax = {.x = x, .y = y, .x_row_stride = 4, .y_row_stride = 4, .rows = 1, .cols = 4}};
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    att_copy_out(session, out, y, sizeof out);
    for (int i = 0; i < 4; i++)
        cr_expect_float_eq(out[i], 0.25f, 1e-6f);
    att_close(session);
    binary_free(&binary);
    text_free(&variant);
    text_free(&source);
}

/* --- explain ------------------------------------------------------------------------------------------------------ */

Test(find, explain_tells_the_choice_and_its_reasons) {
    att_session *session = open_session(NULL);
    char text[4096];
    size_t needed;
    cr_assert_eq(att_explain(session, FLASH, "algorithm=flash", text, sizeof text, &needed), ATT_OK, "%s",
                 att_message(session));
    cr_expect_eq(needed, strlen(text) + 1);
    static const char *const words[] = {
        "attention_forward_fp32_d16_causal_flash", "head_dim    = 16  (given)", "algorithm   = flash  (given)",
        "dtype       = fp32  (default)",           "workspace: 0 bytes",        "launch 1: "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(strstr(text, words[i]), "no \"%s\" in:\n%s", words[i], text);
    char small[10];
    size_t same;
    cr_expect_eq(att_explain(session, FLASH, "algorithm=flash", small, sizeof small, &same), ATT_OK);
    cr_expect_eq(same, needed);
    cr_expect_eq(strlen(small), sizeof small - 1, "cut, but ended");
    cr_expect_eq(att_explain(session, SOFTMAX, "threads=33", text, sizeof text, NULL), ATT_UNSUPPORTED);
    cr_expect(strstr(text, "threads % 32 == 0"), "%s", text);
    att_close(session);
}
