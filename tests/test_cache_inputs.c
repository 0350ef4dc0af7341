/* What goes into the key of a kernel on disk, seen from outside: anything that can change the binary makes a new entry;
   where, when and for whom it is built does not. The compiler is a stand-in, so that only the keys matter. */
#include "helper_cache.h"
#include "session.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder;      /* the test's folder */
static const char *toolchain;   /* identity that the stand-in reports */
static const char *search_text; /* what decides which compiler it is; null = unknown */
static int asked;               /* how often the stand-in was asked for its identity */
static char cache_folder[300];  /* absolute, so that chdir does not move it */

static void setup(void) {
    folder = scratch_make_fast();
    cr_assert(folder);
    snprintf(cache_folder, sizeof cache_folder, "%s/cache", folder);
    toolchain = "compiler: stand-in 1\n";
    search_text = NULL;
}
static void teardown(void) { scratch_remove(folder); }
TestSuite(cache_inputs, .init = setup, .fini = teardown, .timeout = 120);

static enum att_status identity(struct backend *backend, const char *arch, struct text *text, struct failure *failure) {
    (void)backend, (void)arch, (void)failure;
    text_print(text, "%s", toolchain);
    asked++;
    return ATT_OK;
}

static bool search(struct backend *backend, struct text *text) {
    (void)backend;
    text_print(text, "%s", search_text ? search_text : "");
    return search_text;
}

static enum att_status compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                               struct failure *failure) {
    (void)backend, (void)job, (void)failure;
    binary->size = 8;
    binary->bytes = calloc(1, binary->size);
    return binary->bytes ? ATT_OK : ATT_OUT_OF_MEMORY;
}

static enum att_status load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                            struct module **module, struct failure *failure) {
    (void)backend, (void)bytes, (void)size, (void)plan, (void)failure;
    *module = NULL;
    return ATT_OK;
}

struct ask {
    const char *problem, *schedule;
    const char *templates; /* a folder; null = built in */
};

/* True if a new session finds the kernel on disk. */
static bool on_disk(const struct ask *ask) {
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .cache_dir = cache_folder, .template_dir = ask->templates};
    att_session *session;
    att_kernel *kernel;
    struct att_kernel_info info = {.size = sizeof info};
    enum att_status status = att_open(&options, &session);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    struct backend_type stand_in = *session->type;
    stand_in.identity = identity;
    stand_in.search = search;
    stand_in.compile = compile;
    stand_in.load = load;
    session->type = &stand_in;
    cr_assert_eq(att_find(session, ask->problem, ask->schedule, &kernel), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_kernel_describe(kernel, &info), ATT_OK);
    bool disk = strcmp(info.from, "disk") == 0;
    cr_assert(disk || strcmp(info.from, "compiler") == 0, "%s", info.from);
    att_close(session);
    return disk;
}

static const struct ask softmax = {"family=softmax", NULL, NULL};

Test(cache_inputs, every_knob_makes_another_entry) {
    static const struct ask asks[] = {
        {"family=softmax", "algorithm=online", NULL},
        {"family=softmax", "algorithm=three_pass", NULL},
        {"family=softmax", "algorithm=online threads=64", NULL},
        {"family=softmax dtype=bf16", "algorithm=online", NULL},
        {"family=softmax dtype=fp16", "algorithm=online", NULL},
        {"family=softmax dtype=fp16 dtype_out=fp32", "algorithm=online", NULL},
        {"family=attention_forward head_dim=16", "algorithm=flash", NULL},
        {"family=attention_forward head_dim=32", "algorithm=flash", NULL},
        {"family=attention_forward head_dim=16 head_dim_v=32", "algorithm=flash", NULL},
        {"family=attention_forward head_dim=16 mask=causal", "algorithm=flash", NULL},
        {"family=attention_forward head_dim=16", "algorithm=multi_pass", NULL},
    };
    enum { ASKS = sizeof asks / sizeof *asks };
    for (int i = 0; i < ASKS; i++)
        cr_expect_not(on_disk(&asks[i]), "%s; %s: took another's entry", asks[i].problem, asks[i].schedule);
    for (int i = 0; i < ASKS; i++)
        cr_expect(on_disk(&asks[i]), "%s; %s: not found again", asks[i].problem, asks[i].schedule);
    cr_expect_eq(scratch_count(cache_folder, "entries"), ASKS);
}

Test(cache_inputs, another_toolchain_makes_another_entry) {
    cr_expect_not(on_disk(&softmax));
    cr_expect(on_disk(&softmax));
    toolchain = "compiler: stand-in 2\n";
    cr_expect_not(on_disk(&softmax));
    toolchain = "compiler: stand-in 1\n";
    cr_expect(on_disk(&softmax));
}

/* Returns how often one find asks the compiler for its identity. */
static int questions(bool expected_on_disk) {
    asked = 0;
    cr_expect_eq(on_disk(&softmax), expected_on_disk);
    return asked;
}

Test(cache_inputs, a_kernel_on_disk_is_found_without_the_compiler) {
    search_text = "library: 1\n";
    cr_expect_gt(questions(false), 0);
    cr_expect_eq(questions(true), 0);
    search_text = "library: 2\n"; /* another file, possibly the same compiler */
    cr_expect_eq(questions(true), 1);
    cr_expect_eq(questions(true), 0);
    search_text = NULL;
    cr_expect_gt(questions(true), 0);
}

Test(cache_inputs, what_was_remembered_of_a_compiler_makes_no_entry) {
    static const struct ask other = {"family=softmax dtype=bf16", NULL, NULL};
    search_text = "library: 1\n";
    cr_expect_not(on_disk(&softmax));
    toolchain = "compiler: stand-in 2\n"; /* which the search does not notice */
    cr_expect(on_disk(&softmax), "a good kernel of the compiler before");
    cr_expect_not(on_disk(&other));
    cr_expect(on_disk(&other));
    cr_expect_not(on_disk(&softmax), "now the compiler is known");
    toolchain = "compiler: stand-in 1\n";
    search_text = NULL;
    cr_expect_not(on_disk(&other), "its entry is not of the remembered compiler");
    cr_expect(on_disk(&softmax));
}

static void append(const char *path, const char *text) {
    FILE *file = fopen(path, "a");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

Test(cache_inputs, a_changed_template_makes_another_entry_and_a_copied_one_does_not) {
    char copy[300], command[800];
    snprintf(copy, sizeof copy, "%s/templates", folder);
    snprintf(command, sizeof command, "cp -r '%s/templates' '%s'", SOURCE_DIR, copy);
    cr_assert_eq(system(command), 0);
    const struct ask copied = {"family=softmax", "algorithm=online", copy},
                     built_in = {"family=softmax", "algorithm=online", NULL};
    cr_expect_not(on_disk(&built_in));
    cr_expect(on_disk(&copied), "the path of a template is no input");
    append(scratch_path(copy, "", "attention_flash.cu"), "// more\n");
    cr_expect(on_disk(&copied), "a template that was not used is no input");
    append(scratch_path(copy, "", "softmax_online.cu"), "// more\n");
    cr_expect_not(on_disk(&copied), "the template");
    cr_expect(on_disk(&copied));
    append(scratch_path(copy, "fragment", "softmax.cuh"), "// more\n");
    cr_expect_not(on_disk(&copied), "a part of it");
    cr_expect(on_disk(&copied));
}

Test(cache_inputs, place_person_and_time_are_no_input) {
    static const char *const names[] = {"HOME", "USER", "LOGNAME", "TZ", "LANG", "LC_ALL", "HOSTNAME", "TMPDIR", "PWD"};
    cr_expect_not(on_disk(&softmax));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_assert_eq(setenv(names[i], "/elsewhere", 1), 0);
        cr_expect(on_disk(&softmax), "%s", names[i]);
    }
    setlocale(LC_ALL, "C.UTF-8");
    cr_expect(on_disk(&softmax), "locale");
    umask(0277);
    cr_expect(on_disk(&softmax), "umask");
    cr_assert_eq(chdir("/"), 0);
    cr_expect(on_disk(&softmax), "working directory");
    cr_assert_eq(rename(cache_folder, scratch_path(folder, "", "moved")), 0);
    snprintf(cache_folder, sizeof cache_folder, "%s/moved", folder);
    cr_expect(on_disk(&softmax), "place of the cache");
}
