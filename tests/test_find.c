#include "session.h"

#include <criterion/criterion.h>
#include <ftw.h>
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
    struct att_options options = more ? *more : (struct att_options){.no_disk_cache = 1};
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
    struct att_kernel_info info;
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
    struct att_kernel_info info;
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
    const struct att_options options = {.cache_dir = folder};
    att_session *session = open_session(&options);
    cr_expect_str_eq(from(find(session, SOFTMAX, NULL)), "compiler");
    att_close(session);
    session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX, NULL);
    struct att_kernel_info info;
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
    const struct att_options options = {.cache_dir = folder};
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
    const struct att_options options = {.no_disk_cache = 1, .template_dir = folder};
    return open_session(&options);
}

Test(find, own_templates_are_used) {
    att_session *session =
        open_with_templates("    if (threadIdx.x == 0) static_cast<float *>(p.y)[blockIdx.x] = 1;\n");
    att_kernel *kernel = find(session, SOFTMAX, "algorithm=online");
    cr_expect(strstr(att_kernel_source(kernel), "rows_of_ones"));
    att_close(session);
}

/* Launches of one row a block, in templates that count the device's multiprocessors or ask for clusters. */
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
    const struct att_options options = {.no_disk_cache = 1, .template_dir = folder, .host_seed = seed};
    att_session *session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX " target=sm_90a", "algorithm=online");
    void *buffer;
    cr_assert_eq(att_alloc(session, (size_t)count * sizeof *rows, &buffer), ATT_OK);
    cr_assert_eq(att_copy_in(session, buffer, rows, (size_t)count * sizeof *rows), ATT_OK);
    struct att_args args = {
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
    const struct att_options options = {.device = ATT_DEVICE_HOST, .no_disk_cache = 1, .template_dir = folder};
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
    const struct att_bundle bundle = {ATT_BUNDLE_FORMAT, 1, kernels};
    const struct att_bundle *const bundles[] = {&bundle, NULL};
    att_close(session);

    setenv("PATH", "/nonexistent", 1);
    unsetenv("CXX");
    const struct att_options options = {.no_disk_cache = 1, .bundles = bundles};
    session = open_session(&options);
    att_kernel *kernel = find(session, SOFTMAX, NULL);
    cr_expect_str_eq(from(kernel), "bundle");
    cr_expect_str_eq(att_kernel_name(kernel), "bundled");
    cr_expect_str_eq(att_kernel_source(kernel), "");
    struct att_kernel_info info;
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
    struct att_args args = {.softmax = {.x = x, .y = y, .x_row_stride = 4, .y_row_stride = 4, .rows = 1, .cols = 4}};
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
