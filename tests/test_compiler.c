/* The compiler behind the host device: its input, what becomes of its output, and what it leaves behind. Shell scripts
   stand in for it. */
#include "backend.h"
#include "helper_cache.h"
#include "helper_kernel.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { NOBODY = 65534, PATH = 400 };

static const char *directory;

static void setup(void) {
    directory = scratch_make();
    cr_assert(directory);
    cr_assert_eq(mkdir(scratch_path(directory, "", "tmp"), 0700), 0);
    setenv("TMPDIR", scratch_path(directory, "", "tmp"), 1);
}

static void teardown(void) { scratch_remove(directory); }

TestSuite(compiler, .init = setup, .fini = teardown, .timeout = 120);

/* Makes a script the compiler; $out is the file that it must write. */
static void use_script(const char *body) {
    const char *path = scratch_path(directory, "", "compiler");
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fprintf(file,
            "#!/bin/sh\n"
            "if [ \"$1\" = --version ]; then echo stand-in; exit; fi\n"
            "for word; do [ \"$last\" = -o ] && out=$word; last=$word; done\n"
            "cd '%s'\n%s\n",
            directory, body);
    fclose(file);
    cr_assert_eq(chmod(path, 0755), 0);
    setenv("CXX", path, 1);
}

static const char *const entries[] = {"kernel"};
static const char source[] = "struct Params { float *y; };\n"
                             "extern \"C\" __global__ void kernel(const Params p) { p.y[threadIdx.x] = expf(1.0f); }\n";
static const struct compile_job job = {source, "kernel.cu", NULL, entries, 1};
static const struct plan plan = {.launches = 1, .launch = {{.entry = "kernel", .block = 32}}};

/* Compiles with the compiler of a new session. */
static enum att_status compile(struct binary *binary, struct failure *failure) {
    struct device device = device_open(ATT_HOST_FAST, 0);
    enum att_status status = backend_host.compile(device.backend, &job, binary, failure);
    device_close(&device);
    return status;
}

static void expect_compiles(void) {
    struct binary binary;
    struct failure failure = {0};
    cr_expect_eq(compile(&binary, &failure), ATT_OK, "%s", text_string(&failure.text));
    binary_free(&binary);
    failure_clear(&failure);
}

static void expect_failure(enum att_status expected, const char *words) {
    struct binary binary;
    struct failure failure = {0};
    enum att_status status = compile(&binary, &failure);
    cr_expect_eq(status, expected, "%s: %s", att_status_name(status), text_string(&failure.text));
    cr_expect(strstr(text_string(&failure.text), words), "no \"%s\" in: %s", words, text_string(&failure.text));
    cr_expect_null(binary.bytes);
    failure_clear(&failure);
}

/* --- what it answers ------------------------------------------------------------------------------------------------ */

Test(compiler, a_status_other_than_0_is_a_failure_whatever_was_written) {
    use_script("c++ \"$@\"; echo 'I changed my mind'; exit 1");
    expect_failure(ATT_COMPILE_FAILED, "I changed my mind");
    use_script("c++ \"$@\"; kill -9 $$");
    expect_failure(ATT_COMPILE_FAILED, "kernel.cu does not compile");
}

Test(compiler, an_object_that_is_not_whole_is_an_error_of_reading) {
    use_script("c++ \"$@\"; truncate -s -1 $out");
    expect_failure(ATT_IO, "it ends within a section");
    use_script("c++ \"$@\"; truncate -s 3000 $out");
    expect_failure(ATT_IO, "it ends within a segment");
    use_script(": > $out");
    expect_failure(ATT_IO, "it ends within its first header");
    use_script("exit 0");
    expect_failure(ATT_IO, "No such file or directory");
}

Test(compiler, a_kernel_cut_at_any_length_is_refused_before_the_loader_sees_it) {
    struct device device = device_open(ATT_HOST_FAST, 0);
    struct binary binary;
    struct module *module;
    cr_assert_eq(backend_host.compile(device.backend, &job, &binary, &device.failure), ATT_OK, "%s",
                 text_string(&device.failure.text));
    for (size_t size = 0; size < binary.size; size += size + 200 < binary.size ? 61 : 1) {
        cr_assert_eq(backend_host.load(device.backend, binary.bytes, size, &plan, &module, &device.failure),
                     ATT_LAUNCH_FAILED, "cut to %zu of %zu bytes", size, binary.size);
        cr_assert(strstr(text_string(&device.failure.text), "is damaged"));
    }
    cr_expect_eq(backend_host.load(device.backend, binary.bytes, binary.size, &plan, &module, &device.failure), ATT_OK);
    backend_host.unload(device.backend, module);
    binary_free(&binary);
    device_close(&device);
}

/* --- what it is given ----------------------------------------------------------------------------------------------- */

static char *read_back(const char *name) {
    static char bytes[2][1 << 18];
    static int next;
    FILE *file = fopen(scratch_path(directory, "", name), "r");
    cr_assert(file, "%s", name);
    char *text = bytes[next++ % 2];
    text[fread(text, 1, sizeof bytes[0] - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Every option is in the key, except the paths of the folder. */
static void expect_options(const char *identity, char *arguments) {
    int count = 0;
    for (char *rest = arguments, *word; (word = strsep(&rest, "\n"));) {
        char spaced[200];
        if (!*word || strcmp(word, "-o") == 0 || strstr(word, "attile-compile-"))
            continue;
        snprintf(spaced, sizeof spaced, " %s", word);
        const char *found = strstr(identity, spaced);
        char after = found ? found[strlen(spaced)] : '?';
        cr_expect(after == ' ' || after == '\n', "%s is not in the key: %s", word, identity);
        count++;
    }
    cr_expect_gt(count, 15, "the options were seen");
}

/* All text around the kernel's own text is hashed into the key. */
static void expect_words(const char *identity, char *unit) {
    char words[100];
    char *own = strstr(unit, "#line 1 \"kernel.cu\""), *behind = strstr(unit, "#line 1 \"attile/entries.h\""),
         *table = strstr(unit, "#define ENTRIES(entry)");
    cr_assert(own && behind && table);
    memmove(own, behind, (size_t)(table - behind));
    XXH128_hash_t hash = XXH3_128bits(unit, (size_t)(own - unit) + (size_t)(table - behind));
    snprintf(words, sizeof words, "\nwords: %016llx%016llx\n", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    cr_expect(strstr(identity, words), "the kernel's surroundings are not in the key: %s", identity);
}

Test(compiler, the_key_covers_every_option_and_every_word_around_the_kernel) {
    static const enum att_host_mode modes[] = {ATT_HOST_CHECK, ATT_HOST_FAST};
    use_script("printf '%s\\n' \"$@\" > arguments; cp ${out%.so}.cc unit; c++ \"$@\"");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct device device = device_open(modes[i], 0);
        struct binary binary;
        struct text identity = {0};
        cr_assert_eq(backend_host.compile(device.backend, &job, &binary, &device.failure), ATT_OK, "%s",
                     text_string(&device.failure.text));
        cr_assert_eq(backend_host.identity(device.backend, NULL, &identity, &device.failure), ATT_OK);
        expect_options(text_string(&identity), read_back("arguments"));
        expect_words(text_string(&identity), read_back("unit"));
        binary_free(&binary);
        text_free(&identity);
        device_close(&device);
    }
}

Test(compiler, it_sees_an_environment_of_our_own_making) {
    setenv("CPATH", "/elsewhere", 1);
    setenv("GCC_EXEC_PREFIX", "/elsewhere", 1);
    use_script("env | sed 's/=.*//' | grep -v PWD | sort > variables; echo $TMPDIR > folder; c++ \"$@\"");
    setenv("HOME", "/", 1);
    setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
    expect_compiles();
    cr_expect_str_eq(read_back("variables"), "HOME\nLC_ALL\nLD_LIBRARY_PATH\nPATH\nTMPDIR\n", "%s",
                     read_back("variables"));
    cr_expect(strstr(read_back("folder"), "/tmp/attile-compile-"), "%s", read_back("folder"));
}

/* The compiler that was found when the session was opened is the one that runs. */
Test(compiler, a_later_path_changes_nothing) {
    struct device device = device_open(ATT_HOST_FAST, 0);
    struct binary binary;
    use_script("echo > intruder; c++ \"$@\"");
    cr_assert_eq(rename(scratch_path(directory, "", "compiler"), scratch_path(directory, "", "c++")), 0);
    struct text path = {0};
    text_print(&path, "%s:%s", directory, getenv("PATH"));
    setenv("PATH", text_string(&path), 1);
    text_free(&path);
    cr_assert_eq(backend_host.compile(device.backend, &job, &binary, &device.failure), ATT_OK, "%s",
                 text_string(&device.failure.text));
    cr_expect_neq(access(scratch_path(directory, "", "intruder"), F_OK), 0, "another c++ was started");
    binary_free(&binary);
    device_close(&device);
}

Test(compiler, another_one_than_CXX_names_is_never_taken) {
    setenv("CXX", "/nonexistent/c++ -O2", 1);
    expect_failure(ATT_NO_COMPILER, "CXX names the program '/nonexistent/c++'");
    setenv("CXX", " ", 1); /* as if unset */
    expect_compiles();
}

Test(compiler, relative_folders_of_the_path_do_not_count) {
    unsetenv("CXX");
    use_script("exit 1");
    unsetenv("CXX");
    cr_assert_eq(rename(scratch_path(directory, "", "compiler"), scratch_path(directory, "", "c++")), 0);
    cr_assert_eq(chdir(directory), 0);
    setenv("PATH", ".::/nonexistent", 1);
    expect_failure(ATT_NO_COMPILER, "apt install g++");
    setenv("CXX", "./c++", 1); /* but an explicit request counts */
    expect_failure(ATT_COMPILE_FAILED, "does not compile");
}

/* --- what it leaves ------------------------------------------------------------------------------------------------- */

static int left(void) { return scratch_count(directory, "tmp"); }

Test(compiler, nothing_is_left_after_success_and_failure) {
    expect_compiles();
    cr_expect_eq(left(), 0);
    use_script("echo > ${out%/*}/a; echo > ${out%/*}/b; exit 1");
    expect_failure(ATT_COMPILE_FAILED, "");
    cr_expect_eq(left(), 0);
    setenv("TMPDIR", "/nonexistent/folder", 1);
    expect_failure(ATT_IO, "cannot make a folder for the compiler in /nonexistent/folder: No such file");
    setenv("TMPDIR", "relative", 1);
    use_script("echo $out > where; c++ \"$@\"");
    expect_compiles();
    cr_expect_eq(strncmp(read_back("where"), "/tmp/attile-compile-", 20), 0, "%s", read_back("where"));
}

Test(compiler, a_full_disk_is_named_and_left_empty) {
    const char *full = scratch_path(directory, "", "tmp");
    if (geteuid() != 0 || mount("tmpfs", full, "tmpfs", 0, "size=16k,mode=700") != 0)
        cr_skip("a small tmpfs cannot be mounted here");
    expect_failure(ATT_IO, "No space left on device; make room there, or set TMPDIR");
    int files = left();
    cr_assert_eq(umount(full), 0);
    cr_expect_eq(files, 0, "%d", files);
    expect_compiles();
}

static void make_old(const char *path, int64_t seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0, "%s", path);
}

/* A compiler that kills its parent leaves a folder with the source in it. */
static void leave_a_folder(void) {
    use_script("kill -9 $PPID");
    pid_t child = fork();
    if (child == 0) {
        struct binary binary;
        struct failure failure = {0};
        compile(&binary, &failure);
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("CXX");
}

Test(compiler, folders_of_dead_processes_go_with_the_next_compile) {
    char find[PATH + 60];
    leave_a_folder();
    cr_assert_eq(left(), 1);
    expect_compiles();
    cr_expect_eq(left(), 1, "a young one may be in use");
    snprintf(find, sizeof find, "touch -d '-1 hour' %s/tmp/attile-compile-*", directory);
    cr_assert_eq(system(find), 0);
    expect_compiles();
    cr_expect_eq(left(), 0, "an old one is not");
}

Test(compiler, only_old_folders_of_ours_go) {
    static const struct {
        const char *name;
        int64_t age;
        bool goes;
    } cases[] = {
        {"attile-compile-aaaaaa", 3600, true}, {"attile-compile-bbbbbb", 500, false},
        {"attile-compile-cccccc", -60, false}, {"attile-compile-dddddd", -3600, true},
        {"attile-find-aaaaaa", 3600, false},   {"attile", 3600, false},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    for (int i = 0; i < CASES; i++) {
        const char *path = scratch_path(directory, "tmp", cases[i].name);
        cr_assert_eq(mkdir(path, 0700), 0);
        make_old(path, cases[i].age);
    }
    const char *link = scratch_path(directory, "tmp", "attile-compile-link__");
    cr_assert_eq(symlink("attile", link), 0);
    make_old(link, 3600);
    const char *foreign = scratch_path(directory, "tmp", "attile-compile-others");
    cr_assert_eq(mkdir(foreign, 0700), 0);
    cr_assert(geteuid() != 0 || chown(foreign, NOBODY, NOBODY) == 0);
    make_old(foreign, geteuid() == 0 ? 3600 : 0);
    expect_compiles();
    for (int i = 0; i < CASES; i++)
        cr_expect_eq(access(scratch_path(directory, "tmp", cases[i].name), F_OK) != 0, cases[i].goes, "%s",
                     cases[i].name);
    cr_expect_eq(access(foreign, F_OK), 0, "another user's");
    struct stat status;
    cr_expect_eq(lstat(link, &status), 0, "a link");
}
